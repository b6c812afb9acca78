// What the studio's server answers: the page and, below api/, the runs.
#pragma once

#include "http/access.h"
#include "http/router.h"
#include "studio/run_facts.h"
#include "studio/run_history.h"
#include "studio/run_table.h"
#include "studio/studio_page.h"

namespace tessera {

// All of it must outlive the routes. Thread-safe.
struct StudioState {
  RunTable runs;
  StudioPage page;
  RunFacts facts = {};
  RunHistories histories = {};
};

// For whom `rules` let in.
http::Handler studio_handler(StudioState& state, const http::AccessRules& rules);

}  // namespace tessera
