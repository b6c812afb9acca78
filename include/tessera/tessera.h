// The whole library. docs/api.md describes it.
#pragma once

#include "tessera/answer.h"
#include "tessera/explain.h"
#include "tessera/plan.h"
#include "tessera/schedules.h"
#include "tessera/search.h"
#include "tessera/simulate.h"
#include "tessera/train.h"
