#include "base/text/json_templates.h"

TESSERA_JSON_TEMPLATES()
