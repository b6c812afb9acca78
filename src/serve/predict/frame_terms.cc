#include "serve/predict/frame_terms.h"

#include <algorithm>
#include <set>

#include "base/rounding.h"
#include "base/workspace.h"
#include "compile/program/instruction_cost.h"
#include "graph/op_table.h"

namespace tessera::serve {
namespace {

double& at(TimeTerms& terms, TimeTerm term) { return terms[static_cast<size_t>(term)]; }

int64_t first_key(int64_t position, int64_t window) {
  return window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
}

// Blocks of queries are dealt to members in turn, as the kernel does (kernels/cpu/serving).
class Deal {
 public:
  Deal(const KernelArgs& args, int members)
      : args_(args), work_(static_cast<size_t>(members)), members_(static_cast<size_t>(members)) {}

  void add(const SequenceLoad& one) {
    for (int64_t head = 0; head < args_.kv_heads; ++head) {
      const int64_t global = (head + args_.first_kv_head) * args_.heads_per_kv - args_.first_head;
      const int64_t first = std::clamp<int64_t>(global, 0, args_.heads);
      const int64_t last = std::clamp<int64_t>(global + args_.heads_per_kv, 0, args_.heads);
      for (int64_t h = first; h < last; h += workspace::kQueryRows) {
        add_blocks(one, std::min(workspace::kQueryRows, last - h));
      }
    }
  }

  [[nodiscard]] AttentionWork most() const {
    const auto cost = [](const AttentionWork& w) { return w.scores + w.keys; };
    return *std::max_element(work_.begin(), work_.end(),
                             [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  }

 private:
  void add_blocks(const SequenceLoad& one, int64_t heads) {
    constexpr int64_t kTile = workspace::kPageTile;
    const int64_t most = std::max<int64_t>(1, workspace::kQueryRows / heads);
    for (int64_t t = 0; t < one.tokens; t += most) {
      const int64_t count = std::min(most, one.tokens - t);
      const int64_t end = one.cached + t + count;
      const int64_t begin = first_key(one.cached + t, args_.window);
      const int64_t tiles = ceil_div(end, kTile) - begin / kTile;
      AttentionWork& to = work_[next_++ % members_];
      to.keys += static_cast<double>(end - begin);
      to.rows += static_cast<double>(count * heads);
      to.scores += static_cast<double>(count * heads * tiles * kTile);
    }
  }

  const KernelArgs& args_;
  std::vector<AttentionWork> work_;
  size_t members_, next_ = 0;
};

bool is_weight(const Buffer& buffer) { return buffer.arena == ArenaKind::kParameters; }

// Looked up, not read as a whole.
bool reads_rows(const Instruction& instruction) {
  return row_of(instruction.op).cost.bytes == BytesMoved::kLookedUp ||
         instruction.op == OpKind::kPositionsAt;
}

}  // namespace

AttentionWork attention_work(const KernelArgs& args, const FrameLoad& load, int members) {
  Deal deal(args, members);
  for (const SequenceLoad& one : load.sequences) deal.add(one);
  return deal.most();
}

TimeTerms attention_terms(const Program& program, const Instruction& instruction,
                          const FrameLoad& load, const MissShares& misses) {
  const KernelArgs& args = instruction.args;
  const AttentionWork work = attention_work(args, load, program.threads);
  const auto dim = static_cast<double>(args.head_dim);
  const Buffer& cache = program.buffer(instruction.inputs.at(1));
  // Keys and values of one token.
  const double token_bytes =
      2 * static_cast<double>(args.kv_heads) * dim * static_cast<double>(size_bytes(cache.dtype));
  const double read = token_bytes * static_cast<double>(load.keys_read(args.window));
  TimeTerms terms{};
  at(terms, TimeTerm::kCall) = 1;
  at(terms, TimeTerm::kFlop) = work.scores * dim;
  at(terms, TimeTerm::kScore) = work.scores;
  at(terms, TimeTerm::kRight) = work.keys * dim;
  at(terms, TimeTerm::kLeft) = work.rows * dim;
  at(terms, TimeTerm::kMid) = read * misses.mid;
  at(terms, TimeTerm::kFar) = read * misses.far;
  return terms;
}

TimeTerms frame_terms(const Program& program, const Instruction& instruction,
                      const MissShares& misses) {
  const InstructionCost cost = cost_of(program, instruction);
  if (cost.op_class != OpClass::kProducts) {
    return byte_terms(static_cast<double>(cost.bytes_read + cost.bytes_written));
  }
  const auto elements = [&](BufferId id) {
    return static_cast<double>(numel(program.buffer(id).shape));
  };
  const Buffer& weight = program.buffer(instruction.inputs.at(1));
  const double read = is_weight(weight) ? static_cast<double>(weight.bytes()) : 0;
  TimeTerms terms{};
  at(terms, TimeTerm::kCall) = 1;
  at(terms, TimeTerm::kLeft) = elements(instruction.inputs.at(0));
  at(terms, TimeTerm::kRight) = elements(instruction.inputs.at(1));
  at(terms, TimeTerm::kOut) = elements(instruction.outputs.at(0));
  at(terms, TimeTerm::kMid) = read * misses.mid;
  at(terms, TimeTerm::kFar) = read * misses.far;
  return terms;
}

TimeTerms host_terms(int64_t tokens, int64_t instructions, int64_t logits) {
  TimeTerms terms{};
  at(terms, TimeTerm::kCall) = 1;
  at(terms, TimeTerm::kLeft) = static_cast<double>(tokens);
  at(terms, TimeTerm::kFlop) = static_cast<double>(instructions);
  at(terms, TimeTerm::kOut) = static_cast<double>(logits);
  return terms;
}

void add_talk_terms(const Program& program, TimeTerms& units) {
  for (const Instruction& instruction : program.instructions) {
    if (!has_collectives(instruction.stream)) continue;
    at(units, TimeTerm::kScore) += 1;
    at(units, TimeTerm::kByte) +=
        transfer_terms(program, instruction)[static_cast<size_t>(TimeTerm::kByte)];
  }
}

double weight_bytes(const Program& program) {
  std::set<BufferId> seen;
  double sum = 0;
  for (const Instruction& instruction : program.instructions) {
    if (reads_rows(instruction)) continue;
    for (const BufferId id : instruction.inputs) {
      const Buffer& buffer = program.buffer(id);
      if (is_weight(buffer) && seen.insert(id).second) sum += static_cast<double>(buffer.bytes());
    }
  }
  return sum;
}

double cache_bytes(const Program& program, const FrameLoad& load) {
  double sum = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op != OpKind::kPagedAttention) continue;
    const KernelArgs& args = instruction.args;
    const Buffer& cache = program.buffer(instruction.inputs.at(1));
    sum += static_cast<double>(2 * args.kv_heads * args.head_dim * size_bytes(cache.dtype) *
                               load.keys_read(args.window));
  }
  return sum;
}

}  // namespace tessera::serve
