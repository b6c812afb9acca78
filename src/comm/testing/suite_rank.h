// One rank's side of a scenario of the suite: its world, buffers that are used again and again,
// expectations that are computed once, and what went wrong. Needs no test framework, so that a
// program started by mpirun can use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/testing/pattern.h"
#include "comm/testing/suite_case.h"
#include "comm/world.h"

namespace tessera::testing {

// What the suite must know about a backend.
struct SuiteTraits {
  // Whether the case's algorithm may be asked for.
  std::function<bool(const SuiteCase&, int size)> offers;
  // What counters() must say a case sent; null: not checked.
  std::function<int64_t(const SuiteCase&, int rank, int size)> bytes_sent;
  bool records_arrivals = true;
  // Where the world's memory is that of a device: copies to and from it. Buffers of cases lie there
  // then, and are filled and looked at on the host. Null: the host reaches everything.
  using Copy = std::function<void(void* to, const void* from, int64_t size_bytes)>;
  Copy upload = nullptr, download = nullptr;
};

class SuiteRank {
 public:
  // `name` tells the groups of this scenario from those of others in the same world.
  // `buffer_bytes`: the most that the cases between two release_buffers() take.
  SuiteRank(CommWorld& world, const SuiteTraits& traits, std::string name, int64_t buffer_bytes);

  [[nodiscard]] CommWorld& world() { return world_; }
  [[nodiscard]] Communicator& all() { return *all_; }
  [[nodiscard]] const SuiteTraits& traits() const { return traits_; }
  [[nodiscard]] std::unique_ptr<Communicator> join(const std::string& name,
                                                   std::span<const int> members);

  // Differs from rank to rank, and is the same in every run.
  uint64_t random() { return random_(); }
  // Nothing, a yield, or a short sleep.
  void pause();

  // Aligned to cache lines; not initialised.
  std::byte* take(bool from_heap, int64_t size_bytes);
  void release_buffers() { heap_used_ = foreign_used_ = 0; }
  // What a call is given for such a buffer, and how that comes to hold the same, or the other way.
  [[nodiscard]] std::byte* address(std::byte* buffer) const;
  void upload(std::byte* buffer, int64_t size_bytes) const;
  void download(std::byte* buffer, int64_t size_bytes) const;

  const Pattern& contribution(DType dtype, ValueKind kind, int world_rank);
  const Pattern& reduction(ReduceOp op, DType dtype, ValueKind kind, std::span<const int> members);
  std::span<const double> bounds(DType dtype, ValueKind kind, std::span<const int> members);

  void expect(bool ok, const std::string& what) {
    if (!ok) fail(what);
  }
  void fail(const std::string& what);
  // Throws Error with the failures, if there were any.
  void finish() const;

  // A hash of all results: equal between runs, backends and places of buffers.
  void add_to_digest(const std::byte* data, int64_t size_bytes);
  [[nodiscard]] uint64_t digest() const { return digest_; }
  uint64_t restart_digest() { return std::exchange(digest_, 0); }

 private:
  using ReductionKey = std::tuple<ReduceOp, DType, ValueKind, std::vector<int>>;

  [[nodiscard]] bool on_device() const { return traits_.upload != nullptr; }
  std::vector<const Pattern*> terms(DType dtype, ValueKind kind, std::span<const int> members);

  CommWorld& world_;
  const SuiteTraits& traits_;
  std::string name_;
  int64_t buffer_bytes_;
  HostArena heap_;
  HostArena device_;  // as large
  std::unique_ptr<std::byte[]> foreign_;
  int64_t heap_used_ = 0;
  int64_t foreign_used_ = 0;
  std::unique_ptr<Communicator> all_;
  std::mt19937_64 random_;
  std::map<std::tuple<DType, ValueKind, int>, Pattern> contributions_;
  std::map<ReductionKey, Pattern> reductions_;
  std::map<ReductionKey, std::vector<double>> bounds_;
  int64_t num_failures_ = 0;
  std::vector<std::string> failures_;
  uint64_t digest_ = 0;
};

}  // namespace tessera::testing
