// The steps from an entry to a run, in the order in which they are taken. Each reads what the entry
// says of its subject, and notes what it had to guess.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "published/entry.h"
#include "published/entry_fields.h"

namespace tessera {

// An entry, and the run it becomes.
struct EntryReading {
  EntryReading(const nlohmann::json& entry, const PublishedConstants& constants);

  void guess(std::string what, std::string taken, bool memory_depends);

  const nlohmann::json& entry;
  const PublishedConstants& constants;
  EntryFields model, hw, parallel, batch, opts, results, derived;
  PublishedRun run;

  // What the entry leaves open.
  bool tp_open = false, pp_open = false, dp_open = false, virtual_open = false;
  bool micro_open = false, recompute_open = false, zero_open = false;
  bool replicas_open = false;  // the number of devices
  bool global_known = true;
  double batch_scale = 1;  // of the batch that is priced, to the published one
};

void read_model(EntryReading& r);       // entry_model.cc
void read_layout(EntryReading& r);      // entry_layout.cc
void read_options(EntryReading& r);     // entry_options.cc
void read_precision(EntryReading& r);   // entry_options.cc
void read_cluster(EntryReading& r);     // entry.cc: with devices, and a vocabulary that tp divides
void read_batch(EntryReading& r);       // entry_layout.cc
void choose_replicas(EntryReading& r);  // open_choices.cc
void fill_open_choices(EntryReading& r);  // open_choices.cc
void read_time(EntryReading& r);          // entry_results.cc
void read_memory(EntryReading& r);        // entry_results.cc

}  // namespace tessera
