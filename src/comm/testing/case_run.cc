#include "comm/testing/case_run.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::testing {
namespace {

constexpr int64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xC3};
constexpr std::byte kUnset{0x5A};
constexpr int64_t kMostMisaligned = 7;  // elements

}  // namespace

CaseRun::CaseRun(SuiteRank& suite, Communicator& group, const SuiteCase& c)
    : suite_(suite),
      group_(group),
      case_(c),
      width_(size_bytes(c.dtype)),
      in_count_(input_count(c, group.rank(), group.size())),
      out_count_(output_count(c, group.rank(), group.size())) {
  if (c.op == CollectiveOp::kAllToAllV) {
    for (int peer = 0; peer < group.size(); ++peer) {
      send_counts_.push_back(exchanged_count(c, group.rank(), peer));
      receive_counts_.push_back(exchanged_count(c, peer, group.rank()));
    }
  }
  lay_out();
  fill();
  for (const Block& block : blocks_) {
    suite_.upload(block.data - kGuardBytes, block.size_bytes + 2 * kGuardBytes);
  }
}

CaseRun::Block CaseRun::take(int64_t count, int which) {
  const int world_rank = suite_.world().rank();
  const uint64_t random = mix(case_.seed, static_cast<uint64_t>(world_rank * 2 + which));
  bool from_heap = case_.place == BufferPlace::kHeap;
  if (case_.place == BufferPlace::kMixedByRank) {
    from_heap = mix(case_.seed, static_cast<uint64_t>(world_rank)) % 2 == 0;
  } else if (case_.place == BufferPlace::kMixedByBuffer) {
    from_heap = random % 2 == 0;
  }
  // Two in three are not aligned to anything but their elements.
  const auto misaligned = static_cast<int64_t>((random >> 8) % 3 == 0 ? 0 : (random >> 16) % 8);
  const int64_t bytes = count * width_;
  const int64_t offset = kGuardBytes + std::min(misaligned, kMostMisaligned) * width_;
  std::byte* const begin = suite_.take(from_heap, offset + bytes + kGuardBytes);
  std::memset(begin, static_cast<int>(kGuard), static_cast<size_t>(offset));
  std::memset(begin + offset, static_cast<int>(kUnset), static_cast<size_t>(bytes));
  std::memset(begin + offset + bytes, static_cast<int>(kGuard), kGuardBytes);
  blocks_.push_back({begin + offset, bytes});
  return blocks_.back();
}

void CaseRun::lay_out() {
  const int64_t own_place = group_.rank() * case_.count * width_;
  if (!case_.in_place || in_count_ == 0 || out_count_ == 0) {
    if (in_count_ > 0) in_ = take(in_count_, 0).data;
    if (out_count_ > 0) out_ = take(out_count_, 1).data;
    // Off the root, in and out may be given as they are on the root.
    if (case_.in_place && case_.op == CollectiveOp::kReduce && case_.seed % 2 == 0) out_ = in_;
  } else if (in_count_ == out_count_) {
    in_ = out_ = take(in_count_, 0).data;
  } else if (in_count_ > out_count_) {
    in_ = take(in_count_, 0).data;
    out_ = in_ + own_place;
  } else {
    out_ = take(out_count_, 1).data;
    in_ = out_ + own_place;
  }
}

int64_t CaseRun::shift() const {
  return static_cast<int64_t>(mix(case_.seed, 1) % static_cast<uint64_t>(kPatternPeriod));
}

const Pattern& CaseRun::contribution(int source) {
  return suite_.contribution(case_.dtype, case_.values,
                             group_.members()[static_cast<size_t>(source)]);
}

void CaseRun::fill() {
  const Pattern& mine = contribution(group_.rank());
  if (in_count_ > 0) mine.fill(in_, shift(), in_count_);
  const bool sends_its_output = case_.op == CollectiveOp::kBroadcast && case_.root == group_.rank();
  if (sends_its_output && out_count_ > 0) mine.fill(out_, shift(), out_count_);
}

CollectiveCall CaseRun::call() const {
  CollectiveCall call = {.op = case_.op,
                         .reduce = case_.reduce,
                         .dtype = case_.dtype,
                         .root = case_.root,
                         .tag = case_.seed % 3,
                         .count = case_.count,
                         .in = suite_.address(in_),
                         .out = suite_.address(out_),
                         .send_counts = send_counts_,
                         .receive_counts = receive_counts_,
                         .algorithm = case_.algorithm};
  if (case_.op == CollectiveOp::kSend) {
    call.root = (group_.rank() + case_.root) % group_.size();
    call.out = nullptr;
  }
  if (case_.op == CollectiveOp::kAllToAllV) call.count = 0;
  return call;
}

CollectiveCall CaseRun::receive_call() const {
  CollectiveCall receive = call();
  receive.op = CollectiveOp::kReceive;
  receive.root = (group_.rank() - case_.root + group_.size()) % group_.size();
  receive.in = nullptr;
  receive.out = suite_.address(out_);
  return receive;
}

void CaseRun::run() {
  if (!case_.blocking) {
    start();
    wait();
  } else {
    // All ranks send first: a blocking send that waits for its receiver would wait for ever.
    if (case_.op == CollectiveOp::kSend) receive_ = group_.start(receive_call());
    group_.run(call());
    receive_.wait();
  }
  check();
}

void CaseRun::start() {
  work_ = group_.start(call());
  if (case_.op == CollectiveOp::kSend) receive_ = group_.start(receive_call());
}

bool CaseRun::test() { return work_.test() && receive_.test(); }

void CaseRun::wait() {
  work_.wait();
  receive_.wait();
}

void CaseRun::check() {
  for (const Block& block : blocks_) {
    suite_.download(block.data - kGuardBytes, block.size_bytes + 2 * kGuardBytes);
  }
  check_output();
  check_input();
  for (const Block& block : blocks_) check_guards(block, block.data == in_ ? "in" : "out");
  // Which NaN a sum gives is up to the machine.
  if (case_.values == ValueKind::kPlain) suite_.add_to_digest(out_, out_count_ * width_);
}

void CaseRun::check_output() {
  int64_t at = 0;
  for (const Piece& piece : expected_output(case_, group_.rank(), group_.size())) {
    const bool reduced = piece.source == Piece::kReduction;
    const Pattern& expected =
        reduced ? suite_.reduction(case_.reduce, case_.dtype, case_.values, group_.members())
                : contribution(piece.source);
    const std::byte* const actual = out_ + at * width_;
    const int64_t begin = shift() + piece.begin;
    const bool any_order = reduced && !sums_in_order(case_) &&
                           (case_.reduce == ReduceOp::kSum || case_.reduce == ReduceOp::kMean) &&
                           is_floating(case_.dtype);
    const int64_t wrong =
        any_order
            ? expected.first_beyond(actual, begin, piece.count,
                                    suite_.bounds(case_.dtype, case_.values, group_.members()))
            : expected.first_difference(actual, begin, piece.count);
    if (wrong >= 0) {
      fail(fmt::format("element {} of the output (element {} of {} from {}) is wrong, should be {}",
                       at + wrong, wrong, piece.count,
                       reduced ? "the reduction" : fmt::format("rank {}", piece.source),
                       expected.value(begin + wrong)));
      return;
    }
    at += piece.count;
  }
}

void CaseRun::check_input() {
  const bool overwritten = case_.in_place && out_count_ > 0 && case_.op != CollectiveOp::kScatter;
  if (in_count_ == 0 || overwritten) return;
  const int64_t wrong = contribution(group_.rank()).first_difference(in_, shift(), in_count_);
  if (wrong >= 0) fail(fmt::format("element {} of the input has changed", wrong));
}

void CaseRun::check_guards(const Block& block, const char* which) {
  const auto intact = [](const std::byte* guard) {
    return std::all_of(guard, guard + kGuardBytes, [](std::byte b) { return b == kGuard; });
  };
  if (!intact(block.data - kGuardBytes)) fail(fmt::format("bytes before `{}` have changed", which));
  if (!intact(block.data + block.size_bytes)) {
    fail(fmt::format("bytes after `{}` have changed", which));
  }
}

void CaseRun::fail(const std::string& what) {
  suite_.fail(fmt::format("{} on rank {} of {} of group {}: {}", describe(case_), group_.rank(),
                          group_.size(), group_.name(), what));
}

int64_t buffer_bytes(const SuiteCase& c, int size) {
  const int64_t around = 4 * kGuardBytes + kMostMisaligned * size_bytes(c.dtype);
  return 2 * (size * c.count * size_bytes(c.dtype) + around);
}

}  // namespace tessera::testing
