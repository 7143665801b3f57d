/*
 * Lines of the real OpenCode 1.18.33, recorded against the scripted model. Data only.
 */
#pragma once

#include <stddef.h>

/* A prompt that makes it run one command. */
static const char *const opencode_shell[] = {
    "{\"type\":\"step_start\",\"timestamp\":1795981147943,\"sessionID\":\"ses_dd72e889bffeykc"
    "A3W5SVkK5L5\",\"part\":{\"id\":\"prt_228d17e71001QTVPsOLgvv6ay2\",\"messageID\":\"msg_22"
    "8d17d8e001WoRETMVjI1UYpS\",\"sessionID\":\"ses_dd72e889bffeykcA3W5SVkK5L5\",\"type\":\"s"
    "tep-start\"}}",
    "{\"type\":\"text\",\"timestamp\":1795981147944,\"sessionID\":\"ses_dd72e889bffeykcA3W5SV"
    "kK5L5\",\"part\":{\"id\":\"prt_228d17e7a001Hv8ZLuP3fpuIHF\",\"messageID\":\"msg_228d17d8"
    "e001WoRETMVjI1UYpS\",\"sessionID\":\"ses_dd72e889bffeykcA3W5SVkK5L5\",\"type\":\"text\","
    "\"text\":\"Running the command.\",\"time\":{\"start\":1795981147770,\"end\":179598114779"
    "6}}}",
    "{\"type\":\"tool_use\",\"timestamp\":1795981149070,\"sessionID\":\"ses_dd72e889bffeykcA3"
    "W5SVkK5L5\",\"part\":{\"type\":\"tool\",\"tool\":\"bash\",\"callID\":\"call_259524d539a"
    "\",\"state\":{\"status\":\"completed\",\"input\":{\"command\":\"echo hi\",\"description"
    "\":\"Runs a command\"},\"output\":\"hi\\n\",\"metadata\":{\"output\":\"hi\\n\",\"exit\":"
    "0,\"truncated\":false},\"title\":\"echo hi\",\"time\":{\"start\":1795981147788,\"end\":1"
    "795981148840}},\"id\":\"prt_228d17e81001VPZsDDTgoqGqh1\",\"sessionID\":\"ses_dd72e889bff"
    "eykcA3W5SVkK5L5\",\"messageID\":\"msg_228d17d8e001WoRETMVjI1UYpS\"}}",
    "{\"type\":\"step_finish\",\"timestamp\":1795981149071,\"sessionID\":\"ses_dd72e889bffeyk"
    "cA3W5SVkK5L5\",\"part\":{\"id\":\"prt_228d182b9001szVG4CEGfgIhUH\",\"reason\":\"tool-cal"
    "ls\",\"messageID\":\"msg_228d17d8e001WoRETMVjI1UYpS\",\"sessionID\":\"ses_dd72e889bffeyk"
    "cA3W5SVkK5L5\",\"type\":\"step-finish\",\"tokens\":{\"total\":1535,\"input\":500,\"outpu"
    "t\":35,\"reasoning\":0,\"cache\":{\"write\":0,\"read\":1000}},\"cost\":0}}",
    "{\"type\":\"step_start\",\"timestamp\":1795981149072,\"sessionID\":\"ses_dd72e889bffeykc"
    "A3W5SVkK5L5\",\"part\":{\"id\":\"prt_228d18353001zixWyNjMxunexf\",\"messageID\":\"msg_22"
    "8d182e9001VQ1L47q5suaVZw\",\"sessionID\":\"ses_dd72e889bffeykcA3W5SVkK5L5\",\"type\":\"s"
    "tep-start\"}}",
    "{\"type\":\"text\",\"timestamp\":1795981149072,\"sessionID\":\"ses_dd72e889bffeykcA3W5SV"
    "kK5L5\",\"part\":{\"id\":\"prt_228d1835a001CffVhqYVV02Pah\",\"messageID\":\"msg_228d182e"
    "9001VQ1L47q5suaVZw\",\"sessionID\":\"ses_dd72e889bffeykcA3W5SVkK5L5\",\"type\":\"text\","
    "\"text\":\"The command answered: hi\\n\",\"time\":{\"start\":1795981149018,\"end\":17959"
    "81149027}}}",
    "{\"type\":\"step_finish\",\"timestamp\":1795981149073,\"sessionID\":\"ses_dd72e889bffeyk"
    "cA3W5SVkK5L5\",\"part\":{\"id\":\"prt_228d1836d00151xB0U5XEmpXgj\",\"reason\":\"stop\","
    "\"messageID\":\"msg_228d182e9001VQ1L47q5suaVZw\",\"sessionID\":\"ses_dd72e889bffeykcA3W5"
    "SVkK5L5\",\"type\":\"step-finish\",\"tokens\":{\"total\":1535,\"input\":500,\"output\":3"
    "5,\"reasoning\":0,\"cache\":{\"write\":0,\"read\":1000}},\"cost\":0}}",
    NULL,
};

/* The provider answers 401. */
static const char *const opencode_refused[] = {
    "{\"type\":\"error\",\"timestamp\":1795981196522,\"sessionID\":\"ses_dd72ddc7cffeCiwqDm2U"
    "6GpeAF\",\"error\":{\"name\":\"APIError\",\"data\":{\"message\":\"stub says 401: the key"
    " is not valid\",\"statusCode\":401,\"isRetryable\":false,\"responseHeaders\":{\"content-"
    "length\":\"106\",\"content-type\":\"application/json\",\"date\":\"Sun, 29 Nov 2026 19:39"
    ":55 GMT\",\"server\":\"model-stub\"},\"responseBody\":\"{\\\"error\\\": {\\\"type\\\": "
    "\\\"authentication_error\\\", \\\"message\\\": \\\"stub says 401: the key is not valid\\"
    "\", \\\"code\\\": 401}}\",\"metadata\":{\"url\":\"http://127.0.0.1:8755/zen/v1/chat/comp"
    "letions\"}}}}",
    NULL,
};

/* The provider answers 404. */
static const char *const opencode_unknown_model[] = {
    "{\"type\":\"error\",\"timestamp\":1795981477871,\"sessionID\":\"ses_dd7297fcdffeGpnxSi9R"
    "GfU32x\",\"error\":{\"name\":\"APIError\",\"data\":{\"message\":\"stub says 404: the mod"
    "el does not exist\",\"statusCode\":404,\"isRetryable\":false,\"responseHeaders\":{\"cont"
    "ent-length\":\"105\",\"content-type\":\"application/json\",\"date\":\"Sun, 29 Nov 2026 1"
    "9:44:37 GMT\",\"server\":\"model-stub\"},\"responseBody\":\"{\\\"error\\\": {\\\"type\\"
    "\": \\\"not_found_error\\\", \\\"message\\\": \\\"stub says 404: the model does not exis"
    "t\\\", \\\"code\\\": 404}}\",\"metadata\":{\"url\":\"http://127.0.0.1:8755/zen/v1/chat/c"
    "ompletions\"}}}}",
    NULL,
};

/* --session with an id it does not know: its stderr, colours and all. */
static const char *const opencode_lost[] = {
    "\033[91m\033[1mError: \033[0mSession not found",
    NULL,
};
