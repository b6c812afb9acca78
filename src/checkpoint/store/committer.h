// The life of a save on disk: begun, written by all ranks, committed by one. Until COMMIT has its
// name the save does not exist; from then on it is never changed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "checkpoint/store/file_ops.h"
#include "checkpoint/store/save_plan.h"
#include "checkpoint/store/shard_writer.h"

namespace tessera {

// Makes the folder that the shards of this save go into.
void begin_save(FileOps& files, const SaveId& id);

// The same where ranks come one by one: makes the folder unless another rank has.
void join_save(FileOps& files, const SaveId& id);

// Every shard has been written. Refuses (Error) an acknowledgement of another run, generation, save
// or size, one that is there twice and one that is missing. `state`: an object; what it is the
// store does not know, but that the head of all files is added to it. A save of the same step that
// is there already is replaced. Each thing is on disk before the next begins, in an order such that
// power may fail anywhere:
//   manifest.json, state.json, their names; COMMIT.tmp, COMMIT, its name; the folder's name; LATEST
void commit_save(FileOps& files, const SavePlan& plan, const SaveId& id, int64_t step,
                 std::span<const ShardAck> acks, const nlohmann::json& state);

// Removes what there is of a save that failed.
void abandon_save(FileOps& files, const SaveId& id);

// The committed folder gets the name of its step; what has that name is removed first, which loses
// nothing: from here on the new one would be found under either name. What people have put there
// stays, in "step-XXXXXXXX.kept".
void publish(FileOps& files, const std::string& folder, int64_t step);

// A checkpoint stops to exist first (COMMIT, synced), then its files go, as far as they are ours.
// Whatever else somebody has put there stays, and the folder with it: then false.
bool retire(FileOps& files, const std::string& folder);

}  // namespace tessera
