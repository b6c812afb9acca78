#include "comm/nccl/issue.h"

#include <cstddef>
#include <numeric>

namespace tessera::nccl {
namespace {

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
      return ncclUint8;
  }
  TESSERA_CHECK(false, "element type {}", static_cast<int>(type));
}

ncclRedOp_t nccl_reduction(ReduceOp op, int size) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMean:
      // NCCL before 2.29.7 leaves out the last elements of a mean over one rank.
      return size == 1 ? ncclSum : ncclAvg;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kTreeSum:
    case ReduceOp::kTwinSum:
      break;
  }
  TESSERA_CHECK(false, "reduction {}", static_cast<int>(op));
}

// The block of a buffer that goes to, or comes from, one rank: in elements.
struct Block {
  int64_t begin = 0;
  int64_t count = 0;
};

Block block_of(std::span<const int64_t> counts, int64_t count, int rank) {
  if (counts.empty()) return {rank * count, count};
  const auto before = counts.begin() + rank;
  return {std::accumulate(counts.begin(), before, int64_t{0}), *before};
}

// Data movement that NCCL has no call for in its older versions: messages between pairs.
class Exchange {
 public:
  Exchange(const Launch& launch, const CollectiveCall& call) : launch_(launch), call_(call) {}

  void send(const void* base, Block block, int peer) const {
    if (peer == launch_.rank || block.count == 0) return;
    const auto* const from = static_cast<const std::byte*>(base) + block.begin * element_;
    launch_.gpu.check(library_.ncclSend(from, static_cast<size_t>(block.count), type_, peer,
                                        launch_.comm, launch_.stream),
                      "sending");
  }
  void receive(void* base, Block block, int peer) const {
    if (peer == launch_.rank || block.count == 0) return;
    auto* const to = static_cast<std::byte*>(base) + block.begin * element_;
    launch_.gpu.check(library_.ncclRecv(to, static_cast<size_t>(block.count), type_, peer,
                                        launch_.comm, launch_.stream),
                      "receiving");
  }
  void copy(const void* from_base, Block from, void* to_base, int64_t to_begin) const {
    const auto* const source = static_cast<const std::byte*>(from_base) + from.begin * element_;
    auto* const target = static_cast<std::byte*>(to_base) + to_begin * element_;
    if (source == target || from.count == 0) return;
    launch_.gpu.check(
        library_.cudaMemcpyAsync(target, source, static_cast<size_t>(from.count * element_),
                                 cudaMemcpyDeviceToDevice, launch_.stream),
        "copying");
  }

  void gather() const {
    if (launch_.rank != call_.root) return send(call_.in, {0, call_.count}, call_.root);
    for (int peer = 0; peer < launch_.size; ++peer) {
      receive(call_.out, block_of({}, call_.count, peer), peer);
    }
  }
  void scatter() const {
    if (launch_.rank != call_.root) return receive(call_.out, {0, call_.count}, call_.root);
    for (int peer = 0; peer < launch_.size; ++peer) {
      send(call_.in, block_of({}, call_.count, peer), peer);
    }
  }
  void all_to_all(const void* in) const {
    for (int peer = 0; peer < launch_.size; ++peer) {
      send(in, block_of(call_.send_counts, call_.count, peer), peer);
      receive(call_.out, block_of(call_.receive_counts, call_.count, peer), peer);
    }
  }

 private:
  const Launch& launch_;
  const CollectiveCall& call_;
  const GpuLibrary& library_ = *launch_.gpu.library;
  const int64_t element_ = size_bytes(call_.dtype);
  const ncclDataType_t type_ = nccl_type(call_.dtype);
};

void* copy_of_input(const Launch& launch, const CollectiveCall& call) {
  const auto bytes = static_cast<size_t>(call.count * launch.size * size_bytes(call.dtype));
  const GpuLibrary& library = *launch.gpu.library;
  void* copy = nullptr;
  launch.gpu.check(library.cudaMallocAsync(&copy, bytes, launch.stream),
                   "memory for an all_to_all in place");
  launch.gpu.check(
      library.cudaMemcpyAsync(copy, call.in, bytes, cudaMemcpyDeviceToDevice, launch.stream),
      "copying the input of an all_to_all in place");
  return copy;
}

}  // namespace

void* issue_copies(const Launch& launch, const CollectiveCall& call) {
  const Exchange exchange(launch, call);
  const int rank = launch.rank;
  switch (call.op) {
    case CollectiveOp::kGather:
      if (rank == call.root) exchange.copy(call.in, {0, call.count}, call.out, rank * call.count);
      return nullptr;
    case CollectiveOp::kScatter:
      if (rank == call.root) exchange.copy(call.in, block_of({}, call.count, rank), call.out, 0);
      return nullptr;
    case CollectiveOp::kAllToAll:
      if (call.in == call.out && launch.size > 1) return copy_of_input(launch, call);
      [[fallthrough]];
    case CollectiveOp::kAllToAllV:
      exchange.copy(call.in, block_of(call.send_counts, call.count, rank), call.out,
                    block_of(call.receive_counts, call.count, rank).begin);
      return nullptr;
    default:
      return nullptr;
  }
}

void issue(const Launch& launch, const CollectiveCall& call, const void* in_copy) {
  const GpuLibrary& library = *launch.gpu.library;
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = nccl_type(call.dtype);
  const ncclRedOp_t reduction = nccl_reduction(call.reduce, launch.size);
  const Exchange exchange(launch, call);
  const auto check = [&](ncclResult_t status) {
    launch.gpu.check(status, "starting the collective");
  };
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return check(library.ncclBroadcast(call.out, call.out, count, type, call.root, launch.comm,
                                         launch.stream));
    case CollectiveOp::kReduce:
      return check(library.ncclReduce(call.in, call.out, count, type, reduction, call.root,
                                      launch.comm, launch.stream));
    case CollectiveOp::kAllGather:
      return check(
          library.ncclAllGather(call.in, call.out, count, type, launch.comm, launch.stream));
    case CollectiveOp::kReduceScatter:
      return check(library.ncclReduceScatter(call.in, call.out, count, type, reduction, launch.comm,
                                             launch.stream));
    case CollectiveOp::kAllReduce:
      return check(library.ncclAllReduce(call.in, call.out, count, type, reduction, launch.comm,
                                         launch.stream));
    case CollectiveOp::kScatter:
      return exchange.scatter();
    case CollectiveOp::kGather:
      return exchange.gather();
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return exchange.all_to_all(in_copy != nullptr ? in_copy : call.in);
    case CollectiveOp::kSend:
      return exchange.send(call.in, {0, call.count}, call.root);
    case CollectiveOp::kReceive:
      return exchange.receive(call.out, {0, call.count}, call.root);
    case CollectiveOp::kBarrier:
      return;
  }
}

}  // namespace tessera::nccl
