// What happened to a run, as `GET api/runs/ID/journal` gives it: the last lines of its
// events.jsonl. Every call reads them again, so that a reader who asks after every change has all
// of them, once.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

inline constexpr const char* kJournalFile = "events.jsonl";
inline constexpr size_t kMostJournalEvents = 2000;

// `events`: those lines that are objects with an "event", in the order of the file; `complete`:
// there are no others before them; `bad_lines`: lines that are something else. A line that is not
// whole is held back.
nlohmann::ordered_json journal_of(const std::string& folder);

}  // namespace tessera
