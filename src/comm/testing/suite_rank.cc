#include "comm/testing/suite_rank.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace tessera::testing {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kFailuresKept = 5;  // the first ones tell the story

std::byte* align(std::byte* from) {
  const auto address = reinterpret_cast<uintptr_t>(from);
  const auto mask = static_cast<uintptr_t>(kAlignment - 1);
  return from + (((address + mask) & ~mask) - address);
}

}  // namespace

SuiteRank::SuiteRank(CommWorld& world, const SuiteTraits& traits, std::string name,
                     int64_t buffer_bytes)
    : world_(world),
      traits_(traits),
      name_(std::move(name)),
      buffer_bytes_(buffer_bytes),
      heap_(on_device() ? HostArena("suite " + name_, buffer_bytes + kAlignment)
                        : world.allocate("suite " + name_, buffer_bytes + kAlignment)),
      device_(on_device() ? world.allocate("suite " + name_, buffer_bytes + kAlignment)
                          : HostArena()),
      foreign_(std::make_unique_for_overwrite<std::byte[]>(
          static_cast<size_t>(buffer_bytes + kAlignment))),
      all_(world.join_all(name_)),
      random_(mix(hash_name(name_), static_cast<uint64_t>(world.rank()))) {}

std::unique_ptr<Communicator> SuiteRank::join(const std::string& name,
                                              std::span<const int> members) {
  return world_.join(name_ + " " + name, members);
}

void SuiteRank::pause() {
  const uint64_t choice = random() % 16;
  if (choice == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  if (choice < 4) std::this_thread::yield();
}

std::byte* SuiteRank::take(bool from_heap, int64_t size_bytes) {
  from_heap = from_heap || on_device();
  int64_t& used = from_heap ? heap_used_ : foreign_used_;
  const int64_t begin = used;
  used += (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  TESSERA_CHECK(used <= buffer_bytes_, "scenario {} takes {} bytes of buffers and asked for {}",
                name_, used, buffer_bytes_);
  return align(from_heap ? heap_.data() : foreign_.get()) + begin;
}

std::byte* SuiteRank::address(std::byte* buffer) const {
  if (!on_device() || buffer == nullptr) return buffer;
  return align(device_.data()) + (buffer - align(heap_.data()));
}

void SuiteRank::upload(std::byte* buffer, int64_t size_bytes) const {
  if (on_device()) traits_.upload(address(buffer), buffer, size_bytes);
}

void SuiteRank::download(std::byte* buffer, int64_t size_bytes) const {
  if (on_device()) traits_.download(buffer, address(buffer), size_bytes);
}

const Pattern& SuiteRank::contribution(DType dtype, ValueKind kind, int world_rank) {
  const auto key = std::tuple(dtype, kind, world_rank);
  auto found = contributions_.find(key);
  if (found == contributions_.end()) {
    found = contributions_.emplace(key, Pattern::contribution(dtype, kind, world_rank)).first;
  }
  return found->second;
}

std::vector<const Pattern*> SuiteRank::terms(DType dtype, ValueKind kind,
                                             std::span<const int> members) {
  std::vector<const Pattern*> terms;
  for (const int member : members) terms.push_back(&contribution(dtype, kind, member));
  return terms;
}

const Pattern& SuiteRank::reduction(ReduceOp op, DType dtype, ValueKind kind,
                                    std::span<const int> members) {
  const ReductionKey key(op, dtype, kind, {members.begin(), members.end()});
  auto found = reductions_.find(key);
  if (found == reductions_.end()) {
    found = reductions_.emplace(key, Pattern::reduction(op, terms(dtype, kind, members))).first;
  }
  return found->second;
}

std::span<const double> SuiteRank::bounds(DType dtype, ValueKind kind,
                                          std::span<const int> members) {
  const ReductionKey key(ReduceOp::kSum, dtype, kind, {members.begin(), members.end()});
  auto found = bounds_.find(key);
  if (found == bounds_.end()) {
    found = bounds_.emplace(key, reordering_bounds(terms(dtype, kind, members))).first;
  }
  return found->second;
}

void SuiteRank::fail(const std::string& what) {
  if (++num_failures_ <= static_cast<int64_t>(kFailuresKept)) failures_.push_back(what);
}

void SuiteRank::finish() const {
  if (num_failures_ == 0) return;
  std::string text = fmt::format("{} failures in scenario {}:", num_failures_, name_);
  for (const std::string& failure : failures_) text += "\n  " + failure;
  throw Error(text);
}

void SuiteRank::add_to_digest(const std::byte* data, int64_t size_bytes) {
  constexpr int64_t kWordBytes = sizeof(uint64_t);
  for (int64_t at = 0; at < size_bytes; at += kWordBytes) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, static_cast<size_t>(std::min(kWordBytes, size_bytes - at)));
    digest_ = mix(digest_, word);
  }
}

}  // namespace tessera::testing
