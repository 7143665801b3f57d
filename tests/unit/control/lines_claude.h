/*
 * Lines of the real Claude Code 2.1.197, recorded against the scripted model. Data only.
 */
#pragma once

#include <stddef.h>

/* A prompt that makes it run one command. */
static const char *const claude_shell[] = {
    "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/home/sandbox/workspace/app\",\"sess"
    "ion_id\":\"2e3b94b8-ee0f-4126-8999-b38f0e782050\",\"tools\":[\"Task\",\"Bash\",\"CronCre"
    "ate\",\"CronDelete\",\"CronList\",\"Edit\",\"EnterWorktree\",\"ExitWorktree\",\"Notebook"
    "Edit\",\"Read\",\"ReportFindings\",\"ScheduleWakeup\",\"SendMessage\",\"Skill\",\"TaskCr"
    "eate\",\"TaskGet\",\"TaskList\",\"TaskOutput\",\"TaskStop\",\"TaskUpdate\",\"Workflow\","
    "\"Write\"],\"mcp_servers\":[],\"model\":\"claude-sonnet-5\",\"permissionMode\":\"bypassP"
    "ermissions\",\"slash_commands\":[\"deep-research\",\"update-config\",\"verify\",\"debug"
    "\",\"code-review\",\"simplify\",\"batch\",\"fewer-permission-prompts\",\"loop\",\"claude"
    "-api\",\"run\",\"run-skill-generator\",\"clear\",\"compact\",\"config\",\"context\",\"he"
    "apdump\",\"init\",\"reload-skills\",\"review\",\"security-review\",\"usage\",\"insights"
    "\",\"goal\",\"team-onboarding\"],\"apiKeySource\":\"ANTHROPIC_API_KEY\",\"claude_code_ve"
    "rsion\":\"2.1.197\",\"output_style\":\"default\",\"agents\":[\"claude\",\"Explore\",\"ge"
    "neral-purpose\",\"Plan\",\"statusline-setup\"],\"skills\":[\"deep-research\",\"update-co"
    "nfig\",\"verify\",\"debug\",\"code-review\",\"simplify\",\"batch\",\"fewer-permission-pr"
    "ompts\",\"loop\",\"claude-api\",\"run\",\"run-skill-generator\"],\"plugins\":[],\"analyt"
    "ics_disabled\":true,\"product_feedback_disabled\":true,\"uuid\":\"c867abdf-29da-4e72-bf9"
    "9-7884f77d0958\",\"memory_paths\":{\"auto\":\"/home/sandbox/.agents/claude-code/projects"
    "/-home-sandbox-workspace-app/memory/\"},\"fast_mode_state\":\"off\"}",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_stub\",\"type\":\"message\",\"role\":"
    "\"assistant\",\"model\":\"claude-sonnet-5\",\"content\":[{\"type\":\"text\",\"text\":\"R"
    "unning the command.\"}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_t"
    "okens\":500,\"cache_read_input_tokens\":1000,\"cache_creation_input_tokens\":0,\"output_"
    "tokens\":1},\"context_management\":null},\"parent_tool_use_id\":null,\"session_id\":\"2e"
    "3b94b8-ee0f-4126-8999-b38f0e782050\",\"uuid\":\"ce60744c-6c9d-4d84-af35-423a5e2c9214\"}"
    "",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_stub\",\"type\":\"message\",\"role\":"
    "\"assistant\",\"model\":\"claude-sonnet-5\",\"content\":[{\"type\":\"tool_use\",\"id\":"
    "\"toolu_2a1f9953cf2\",\"name\":\"Bash\",\"input\":{\"command\":\"echo hi\",\"description"
    "\":\"Runs a command\"}}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_"
    "tokens\":500,\"cache_read_input_tokens\":1000,\"cache_creation_input_tokens\":0,\"output"
    "_tokens\":1},\"context_management\":null},\"parent_tool_use_id\":null,\"session_id\":\"2"
    "e3b94b8-ee0f-4126-8999-b38f0e782050\",\"uuid\":\"9eb8a50f-c0fc-4993-87e4-7f88eee5e924\"}"
    "",
    "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"toolu_"
    "2a1f9953cf2\",\"type\":\"tool_result\",\"content\":\"hi\",\"is_error\":false}]},\"parent"
    "_tool_use_id\":null,\"session_id\":\"2e3b94b8-ee0f-4126-8999-b38f0e782050\",\"uuid\":\"2"
    "4e30b3e-5ff3-455b-80d5-efc61030aa23\",\"timestamp\":\"2026-11-29T19:44:20.709Z\",\"tool_"
    "use_result\":{\"stdout\":\"hi\",\"stderr\":\"\",\"interrupted\":false,\"isImage\":false,"
    "\"noOutputExpected\":false}}",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_stub\",\"type\":\"message\",\"role\":"
    "\"assistant\",\"model\":\"claude-sonnet-5\",\"content\":[{\"type\":\"text\",\"text\":\"T"
    "he command answered: hi\"}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"inp"
    "ut_tokens\":500,\"cache_read_input_tokens\":1000,\"cache_creation_input_tokens\":0,\"out"
    "put_tokens\":1},\"context_management\":null},\"parent_tool_use_id\":null,\"session_id\":"
    "\"2e3b94b8-ee0f-4126-8999-b38f0e782050\",\"uuid\":\"116bc656-af30-48ef-a7f0-091ffc9b7f66"
    "\"}",
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"api_error_status\":nul"
    "l,\"duration_ms\":1297,\"duration_api_ms\":282,\"ttft_ms\":326,\"ttft_stream_ms\":303,\""
    "time_to_request_ms\":239,\"num_turns\":2,\"result\":\"The command answered: hi\",\"stop_"
    "reason\":\"end_turn\",\"session_id\":\"2e3b94b8-ee0f-4126-8999-b38f0e782050\",\"total_co"
    "st_usd\":0.00465,\"usage\":{\"input_tokens\":1000,\"cache_creation_input_tokens\":0,\"ca"
    "che_read_input_tokens\":2000,\"output_tokens\":70,\"server_tool_use\":{\"web_search_requ"
    "ests\":0,\"web_fetch_requests\":0},\"service_tier\":\"standard\",\"cache_creation\":{\"e"
    "phemeral_1h_input_tokens\":0,\"ephemeral_5m_input_tokens\":0},\"inference_geo\":\"\",\"i"
    "terations\":[],\"speed\":\"standard\"},\"modelUsage\":{\"claude-sonnet-5\":{\"inputToken"
    "s\":1000,\"outputTokens\":70,\"cacheReadInputTokens\":2000,\"cacheCreationInputTokens\":"
    "0,\"webSearchRequests\":0,\"costUSD\":0.00465,\"contextWindow\":200000,\"maxOutputTokens"
    "\":64000}},\"permission_denials\":[],\"terminal_reason\":\"completed\",\"fast_mode_state"
    "\":\"off\",\"uuid\":\"ed001edd-e37f-4ed1-a23f-bf80f7f25d5a\"}",
    NULL,
};

/* The provider answers 401, again and again. */
static const char *const claude_refused[] = {
    "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/home/sandbox/workspace/app\",\"sess"
    "ion_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"tools\":[\"Task\",\"Bash\",\"CronCre"
    "ate\",\"CronDelete\",\"CronList\",\"Edit\",\"EnterWorktree\",\"ExitWorktree\",\"Notebook"
    "Edit\",\"Read\",\"ReportFindings\",\"ScheduleWakeup\",\"SendMessage\",\"Skill\",\"TaskCr"
    "eate\",\"TaskGet\",\"TaskList\",\"TaskOutput\",\"TaskStop\",\"TaskUpdate\",\"Workflow\","
    "\"Write\"],\"mcp_servers\":[],\"model\":\"claude-sonnet-5\",\"permissionMode\":\"bypassP"
    "ermissions\",\"slash_commands\":[\"deep-research\",\"update-config\",\"verify\",\"debug"
    "\",\"code-review\",\"simplify\",\"batch\",\"fewer-permission-prompts\",\"loop\",\"claude"
    "-api\",\"run\",\"run-skill-generator\",\"clear\",\"compact\",\"config\",\"context\",\"he"
    "apdump\",\"init\",\"reload-skills\",\"review\",\"security-review\",\"usage\",\"insights"
    "\",\"goal\",\"team-onboarding\"],\"apiKeySource\":\"ANTHROPIC_API_KEY\",\"claude_code_ve"
    "rsion\":\"2.1.197\",\"output_style\":\"default\",\"agents\":[\"claude\",\"Explore\",\"ge"
    "neral-purpose\",\"Plan\",\"statusline-setup\"],\"skills\":[\"deep-research\",\"update-co"
    "nfig\",\"verify\",\"debug\",\"code-review\",\"simplify\",\"batch\",\"fewer-permission-pr"
    "ompts\",\"loop\",\"claude-api\",\"run\",\"run-skill-generator\"],\"plugins\":[],\"analyt"
    "ics_disabled\":true,\"product_feedback_disabled\":true,\"uuid\":\"2bfe2966-5d3f-4a05-9e7"
    "4-64bde48616b8\",\"memory_paths\":{\"auto\":\"/home/sandbox/.agents/claude-code/projects"
    "/-home-sandbox-workspace-app/memory/\"},\"fast_mode_state\":\"off\"}",
    "{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":1,\"max_retries\":3,\"retry_d"
    "elay_ms\":560.2801385167108,\"error_status\":401,\"error\":\"authentication_failed\",\"s"
    "ession_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"uuid\":\"7f1aa7f0-89e1-45cb-8e7e-"
    "7e3a876aeee6\"}",
    "{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":2,\"max_retries\":3,\"retry_d"
    "elay_ms\":1226.492354037685,\"error_status\":401,\"error\":\"authentication_failed\",\"s"
    "ession_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"uuid\":\"d7d6b96b-a0be-4e43-b1bd-"
    "74dedb426ede\"}",
    "{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":3,\"max_retries\":3,\"retry_d"
    "elay_ms\":2213.858866024953,\"error_status\":401,\"error\":\"authentication_failed\",\"s"
    "ession_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"uuid\":\"7f02753d-2734-4f0e-a852-"
    "ba53ba85118f\"}",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"e5b89e81-0eb2-47dd-8a45-1fdad25e088c\",\"c"
    "ontainer\":null,\"model\":\"<synthetic>\",\"role\":\"assistant\",\"stop_details\":null,"
    "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"\",\"type\":\"message\",\"usage\":"
    "{\"input_tokens\":0,\"output_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_i"
    "nput_tokens\":0,\"server_tool_use\":{\"web_search_requests\":0,\"web_fetch_requests\":0}"
    ",\"service_tier\":null,\"cache_creation\":{\"ephemeral_1h_input_tokens\":0,\"ephemeral_5"
    "m_input_tokens\":0},\"inference_geo\":null,\"iterations\":null,\"speed\":null},\"content"
    "\":[{\"type\":\"text\",\"text\":\"Failed to authenticate. API Error: 401 stub says 401: "
    "the key is not valid\"}],\"context_management\":null},\"parent_tool_use_id\":null,\"sess"
    "ion_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"uuid\":\"94929767-889d-41ef-abb3-9e3"
    "21baf326e\",\"error\":\"authentication_failed\"}",
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":401,"
    "\"duration_ms\":4202,\"duration_api_ms\":0,\"num_turns\":1,\"result\":\"Failed to authen"
    "ticate. API Error: 401 stub says 401: the key is not valid\",\"stop_reason\":\"stop_sequ"
    "ence\",\"session_id\":\"9177a7d6-3c2c-4023-ac20-67781dd90a2a\",\"total_cost_usd\":0,\"us"
    "age\":{\"input_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":"
    "0,\"output_tokens\":0,\"server_tool_use\":{\"web_search_requests\":0,\"web_fetch_request"
    "s\":0},\"service_tier\":\"standard\",\"cache_creation\":{\"ephemeral_1h_input_tokens\":0"
    ",\"ephemeral_5m_input_tokens\":0},\"inference_geo\":\"\",\"iterations\":[],\"speed\":\"s"
    "tandard\"},\"modelUsage\":{},\"permission_denials\":[],\"terminal_reason\":\"completed\""
    ",\"fast_mode_state\":\"off\",\"uuid\":\"a16e948e-0ab2-4a45-8b38-fb7a7701703f\"}",
    NULL,
};

/* --resume with an id it does not know. */
static const char *const claude_lost[] = {
    "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"duration_ms\":0,\"duration"
    "_api_ms\":0,\"is_error\":true,\"num_turns\":0,\"stop_reason\":null,\"session_id\":\"1111"
    "1111-2222-3333-4444-555555555555\",\"total_cost_usd\":0,\"usage\":{\"input_tokens\":0,\""
    "cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0,\"serv"
    "er_tool_use\":{\"web_search_requests\":0,\"web_fetch_requests\":0},\"service_tier\":\"st"
    "andard\",\"cache_creation\":{\"ephemeral_1h_input_tokens\":0,\"ephemeral_5m_input_tokens"
    "\":0},\"inference_geo\":\"\",\"iterations\":[],\"speed\":\"standard\"},\"modelUsage\":{}"
    ",\"permission_denials\":[],\"uuid\":\"df66c9a7-9a70-4c72-8ef8-1d5ad15c078e\",\"errors\":"
    "[\"No conversation found with session ID: 11111111-2222-3333-4444-555555555555\"]}",
    NULL,
};
