// A collective played with numbers: who sends which chunk to whom in every step, what each rank
// then has, and who waits for ever where a rank is lost. These are the schedules that the
// communicators execute (schedule.h), with one element for each chunk. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/schedule.h"

namespace tessera {

struct PlayRequest {
  CollectiveOp op = CollectiveOp::kAllReduce;  // no send, receive, barrier or all_to_all_v
  Algorithm algorithm = Algorithm::kRing;      // one that the op supports
  int root = 0;                                // of the ops that have one
  // By rank, what it contributes; where only the root does, the others may have nothing. All of
  // them have equally many; scatter, reduce_scatter and all_to_all a multiple of the ranks.
  std::vector<std::vector<double>> values;
  int ranks_per_node = 0;    // hierarchical; 0: all on one
  int lost = -1;             // a rank that is gone
  int lost_before_step = 1;  // from this step on
};

struct ChunkValue {
  double value = 0;
  std::vector<int> from;  // whose contributions are in it, ascending
  bool operator==(const ChunkValue&) const = default;
};
// By chunk of the whole array; nothing where the rank has none.
using RankChunks = std::vector<std::optional<ChunkValue>>;

struct PlayedMove {
  int from = 0, to = 0;
  int chunk = 0;        // on the sender
  int at = 0;           // on the receiver: another one in an all_to_all only
  bool reduce = false;  // the receiver adds it to others
  ChunkValue value;
};

struct PlayedWait {
  int rank = 0, peer = 0;
  bool sends = false;  // it has something for the peer; otherwise it waits for what the peer has
};

// What happens between one message of a rank and its next.
struct PlayedStep {
  std::vector<PlayedMove> moves;
  // After it, by rank: of each chunk what the rank has made or got last, unless that knows less. Of
  // an all_to_all, what has arrived.
  std::vector<RankChunks> state;
  std::vector<PlayedWait> waits;  // that began in this step and never end
};

struct PlayedCollective {
  int chunks = 0;                  // of the whole array
  int messages = 0;                // a message may have several chunks
  std::vector<RankChunks> before;  // by rank
  std::vector<PlayedStep> steps;   // up to the last in which anything moves
  std::vector<RankChunks> after;   // the results
};

PlayedCollective play(const PlayRequest& request);

// What the op promises, worked out without any steps.
std::vector<RankChunks> promised_result(const PlayRequest& request);

}  // namespace tessera
