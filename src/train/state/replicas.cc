#include "train/state/replicas.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"
#include "train/state/bucket_runs.h"

namespace tessera {
namespace {

constexpr std::array<StatePart, 4> kParts = {StatePart::kWeights, StatePart::kM, StatePart::kV,
                                             StatePart::kMaster};

std::string_view name_of(StatePart part) {
  switch (part) {
    case StatePart::kWeights:
      return "weights";
    case StatePart::kM:
      return "m";
    case StatePart::kV:
      return "v";
    case StatePart::kMaster:
      return "master";
  }
  return "";
}

// Which buffer of a bucket is looked at, and what is in it.
struct Holding {
  size_t bucket = 0;
  StatePart part = StatePart::kWeights;
  bool whole = false;
  std::string what;
};

std::vector<Holding> holdings_of(const StepGraph& step, int rank) {
  std::vector<Holding> holdings;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    if (!step.holds(rank, bucket.unit) || step.shares_weights(rank, b)) continue;
    for (const StatePart part : kParts) {
      const bool whole = part == StatePart::kWeights && step.spec.parallel.zero < 3;
      const int64_t numel = whole ? bucket.numel : kept_numel(step, bucket);
      const BucketWindow window = window_of(step, bucket, numel, rank);
      holdings.push_back({b, part, whole,
                          fmt::format("{}.{} {} {}", bucket.name, name_of(part),
                                      split_position(step, bucket, rank), window.begin)});
    }
  }
  return holdings;
}

uint64_t word_at(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

// Four sums that do not wait for each other, mixed in the end.
uint64_t hash_bytes(std::span<const std::byte> bytes) {
  constexpr uint64_t kOdd = 0x9e3779b185ebca87;
  constexpr uint64_t kOther = 0xc2b2ae3d27d4eb4f;
  constexpr size_t kStripe = 32;
  std::array<uint64_t, 4> lanes = {kOdd + kOther, kOther, 0, 0 - kOdd};
  size_t at = 0;
  for (; at + kStripe <= bytes.size(); at += kStripe) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const uint64_t word = word_at(bytes.data() + at + lane * sizeof(uint64_t));
      lanes[lane] = std::rotl(lanes[lane] + word * kOther, 31) * kOdd;
    }
  }
  uint64_t hash = bytes.size();
  for (const uint64_t lane : lanes) hash = (hash ^ lane) * kOdd + kOther;
  for (; at < bytes.size(); ++at) {
    hash = std::rotl(hash ^ static_cast<uint64_t>(bytes[at]) * kOdd, 11) * kOther;
  }
  hash = (hash ^ hash >> 33) * kOther;
  return hash ^ hash >> 29;
}

std::vector<HeldState> hash_state(const Executor& executor, const StepGraph& step) {
  const Program& program = executor.program();
  std::vector<HeldState> held;
  for (const Holding& holding : holdings_of(step, program.rank)) {
    const BucketBuffers& buffers = program.buckets[holding.bucket];
    const BufferId id = holding.whole && buffers.full != kNoBuffer
                            ? buffers.full
                            : buffer_of(buffers, holding.part);
    if (id == kNoBuffer) continue;
    const HostView view = executor.view(id);
    const auto* bytes = static_cast<const std::byte*>(view.tensor.data);
    held.push_back(
        {holding.what, hash_bytes({bytes, static_cast<size_t>(program.buffer(id).bytes())})});
  }
  return held;
}

std::string text_of(const std::vector<HeldState>& held) {
  std::string text;
  for (const HeldState& one : held) text += fmt::format("{}={}\n", one.what, hex(one.hash));
  return text;
}

std::vector<HeldState> parse_held_state(const std::string& text) {
  std::vector<HeldState> held;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const size_t equals = std::min(line.rfind('='), line.size() - 1);
    HeldState one{std::string(line.substr(0, equals)), 0};
    const std::string_view digits = line.substr(equals + 1);
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), one.hash, 16);
    require(failure == std::errc() && end == digits.data() + digits.size(),
            "{} is no hash of a rank's state: start all ranks from the same build",
            in_quotes(line));
    held.push_back(std::move(one));
  }
  return held;
}

bool has_replicas(const StepGraph& step) {
  std::map<std::string, int> holders;
  for (int rank = 0; rank < step.mesh.world(); ++rank) {
    for (const Holding& holding : holdings_of(step, rank)) {
      if (++holders[holding.what] > 1) return true;
    }
  }
  return false;
}

std::optional<ReplicaDifference> find_difference(const std::vector<std::vector<HeldState>>& ranks) {
  std::map<std::string, std::map<uint64_t, std::vector<int>>> seen;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const HeldState& one : ranks[rank]) {
      seen[one.what][one.hash].push_back(static_cast<int>(rank));
    }
  }
  for (const std::vector<HeldState>& rank : ranks) {
    for (const HeldState& one : rank) {
      const auto& kinds = seen.at(one.what);
      if (kinds.size() == 1) continue;
      ReplicaDifference found;
      found.what = one.what;
      const std::vector<int>* most = nullptr;
      for (const auto& [hash, same] : kinds) {
        found.holders.insert(found.holders.end(), same.begin(), same.end());
        if (most == nullptr || same.size() > most->size()) most = &same;
      }
      std::sort(found.holders.begin(), found.holders.end());
      found.majority = 2 * most->size() > found.holders.size();
      for (const int holder : found.holders) {
        const bool fits = std::count(most->begin(), most->end(), holder) > 0;
        if (!found.majority || !fits) found.odd.push_back(holder);
      }
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace tessera
