/*
 * The commit this program was built from. Constant.
 */
#pragma once

const char *version_text(void);
