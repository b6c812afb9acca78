// The fields of topics that are about a run on a cluster: the keys of a run (docs/api.md).
#pragma once

#include <initializer_list>
#include <vector>

#include "api/show/topic.h"

namespace tessera {

// Those of a run, "cluster" among them, then `own`. A topic reads them from the request as it was
// asked, by read_source() and read_split().
std::vector<ShowField> with_run_fields(std::initializer_list<ShowField> own);

}  // namespace tessera
