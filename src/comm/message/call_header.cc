#include "comm/message/call_header.h"

namespace tessera::message {

CallHeader make_header(const CollectiveCall& call, Algorithm chosen, uint64_t group,
                       uint64_t sequence) {
  CallHeader header{
      .op = call.op, .tag = call.tag, .count = call.count, .sequence = sequence, .group = group};
  if (call.op == CollectiveOp::kBarrier) header.count = 0;
  if (call.op != CollectiveOp::kBarrier) header.dtype = call.dtype;
  if (reduces(call.op)) header.reduce = call.reduce;
  if (has_root(call.op) || is_point_to_point(call.op)) header.root = call.root;
  header.asked = call.algorithm;
  header.chosen = chosen;
  return header;
}

bool agree(const CallHeader& mine, const CallHeader& theirs) {
  const bool met = mine.op == CollectiveOp::kReceive && theirs.op == CollectiveOp::kSend;
  return (mine.op == theirs.op || met) && mine.reduce == theirs.reduce &&
         mine.dtype == theirs.dtype && mine.chosen == theirs.chosen && mine.tag == theirs.tag &&
         (mine.root == theirs.root || met) &&
         (mine.count == theirs.count || mine.op == CollectiveOp::kAllToAllV);
}

std::string describe(const CallHeader& header) {
  return tessera::describe({.op = header.op,
                            .reduce = header.reduce,
                            .dtype = header.dtype,
                            .root = header.root,
                            .tag = header.tag,
                            .count = header.count,
                            .algorithm = header.asked},
                           header.sequence);
}

std::string disagreement(int rank, const CallHeader& header, int other_rank,
                         const CallHeader& other) {
  if (rank < other_rank) return disagreement(other_rank, other, rank, header);
  std::string text = describe(header);
  std::string other_text = describe(other);
  if (text == other_text) {  // then what `auto` means is not the same there
    text += fmt::format(" by {}", name_of(header.chosen));
    other_text += fmt::format(" by {}", name_of(other.chosen));
  }
  return fmt::format("rank {} called {} while rank {} called {}", rank, text, other_rank,
                     other_text);
}

}  // namespace tessera::message
