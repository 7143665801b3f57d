/*
 * The adapters there are. Private to control/task/.
 */
#pragma once

#include "control/task/agent.h"

extern const struct agent_adapter agent_opencode;
extern const struct agent_adapter agent_claude;
