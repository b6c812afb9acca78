// The steps from an entry to a run, in the order in which they are taken. Each reads what the entry
// says of its subject, and notes what it had to guess.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "published/entry.h"
#include "published/entry_fields.h"

namespace tessera {

// What an entry says of the batch of a step, if anything.
struct BatchSaid {
  std::optional<int64_t> sequences;
  bool about = false;                    // counted in tokens, which are rounded
  std::optional<int64_t> micro_batches;  // of a replica, where sequences are not given
  [[nodiscard]] bool known() const { return sequences || micro_batches; }
};

// An entry, and the run it becomes.
struct EntryReading {
  EntryReading(const nlohmann::json& entry, const PublishedConstants& constants);

  void guess(std::string what, std::string taken, bool memory_depends);

  const nlohmann::json& entry;
  const PublishedConstants& constants;
  EntryFields model, hw, parallel, batch, opts, results, derived;
  PublishedRun run;

  // What the entry leaves open.
  bool tp_open = false, pp_open = false, schedule_open = false, virtual_open = false;
  bool micro_open = false, recompute_open = false, zero_open = false;
  bool replicas_open = false;  // the number of devices
  std::optional<int64_t> dp_said;
  BatchSaid batch_said;
  double batch_scale = 1;  // of the batch that is priced, to the published one
};

void read_model(EntryReading& r);       // entry_model.cc
void read_layout(EntryReading& r);      // entry_layout.cc
void read_options(EntryReading& r);     // entry_options.cc
void read_precision(EntryReading& r);   // entry_options.cc
void read_cluster(EntryReading& r);     // entry.cc: with devices, and a vocabulary that tp divides
void read_batch(EntryReading& r);       // entry_batch.cc
void choose_replicas(EntryReading& r);  // open_choices.cc
void fill_open_choices(EntryReading& r);  // open_choices.cc
void note_batch(EntryReading& r);         // entry_batch.cc: what the choices made of it
void read_time(EntryReading& r);          // entry_results.cc
void read_memory(EntryReading& r);        // entry_results.cc

// Sequences of a step of this strategy: those that the entry says, or as near as whole
// micro-batches of all replicas allow.
int64_t batch_of(const EntryReading& r, const Strategy& strategy);  // entry_batch.cc
// Sizes of a micro-batch that divide what a replica has of the batch, or the one that is said.
std::vector<int64_t> possible_micro_batches(const EntryReading& r, const Strategy& strategy);

}  // namespace tessera
