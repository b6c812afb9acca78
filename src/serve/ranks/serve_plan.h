// Where it was before it became a part of the pure house.
#pragma once

#include "serve/plan/serve_plan.h"
