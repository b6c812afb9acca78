// Test support: a CUDA runtime and an NCCL in host memory, for ranks that are threads. As with the
// real ones, what is queued on a stream runs later and in order, a launch takes a while to settle,
// a send does not end before its receive runs, and a collective not before every rank runs it.
// Element type of reductions: f32.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/gpu_library.h"

namespace tessera::nccl::testing {

class FakeGpu {
 public:
  FakeGpu() { current() = this; }
  ~FakeGpu() {
    for (void* memory : memory_) std::free(memory);
    current() = nullptr;
  }
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  [[nodiscard]] std::shared_ptr<const GpuLibrary> library() const;

  // What goes wrong.
  std::atomic<bool> hangs = false;                  // nothing that is queued runs
  std::atomic<bool> abort_hangs = false;            // for as long as this is set
  std::atomic<bool> refuses_ranks = false;          // to connect them
  std::atomic<ncclResult_t> failure = ncclSuccess;  // found on the next look

  // What is put on the stream from now on does not run.
  void block(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Op blocked;
    blocked.kind = Op::kBlocked;
    append(*stream_of(stream), {blocked});
  }

  // What was seen.
  std::atomic<int> num_aborted = 0;
  std::atomic<int> num_abort_returned = 0;
  std::atomic<int> num_destroyed = 0;
  std::atomic<int> num_launches = 0;
  std::atomic<int> num_freed = 0;

 private:
  struct Comm;
  struct Op {
    enum Kind { kLocal, kSend, kReceive, kCollective, kBlocked } kind = kLocal;
    Comm* comm = nullptr;
    int peer = 0;
    const void* in = nullptr;
    void* out = nullptr;
    size_t size_bytes = 0;
    std::function<void(std::vector<Op*>&)> run;  // kLocal: of itself; kCollective: of all ranks'
    bool done = false;
  };
  using OpGroup = std::vector<Op>;  // runs together
  struct Stream {
    std::deque<OpGroup> queue;
    uint64_t queued = 0;
    uint64_t finished = 0;
  };
  struct Event {
    Stream* stream = nullptr;
    uint64_t position = 0;
  };
  struct Comm {
    std::string id;
    int rank = 0;
    int size = 0;
    int looks_until_settled = 0;
    OpGroup launching;
    Stream* stream = nullptr;
  };

  // The functions of the table have no place for an object.
  static FakeGpu*& current() {
    static FakeGpu* gpu = nullptr;
    return gpu;
  }
  static OpGroup& open_group() {
    thread_local OpGroup group;
    return group;
  }
  template <typename Handle, typename Object>
  static Handle handle(Object* object) {
    return reinterpret_cast<Handle>(object);
  }
  static Comm* comm_of(ncclComm_t handle) { return reinterpret_cast<Comm*>(handle); }
  Stream* stream_of(cudaStream_t handle) {
    return handle == nullptr ? &default_stream_ : reinterpret_cast<Stream*>(handle);
  }

  static void append(Stream& stream, OpGroup group) {
    stream.queue.push_back(std::move(group));
    ++stream.queued;
  }

  static ncclResult_t add_collective(ncclComm_t handle, cudaStream_t stream, const void* in,
                                     void* out, std::function<void(std::vector<Op*>&)> run) {
    const std::lock_guard lock(current()->mutex_);
    Comm* const comm = comm_of(handle);
    comm->stream = current()->stream_of(stream);
    open_group().push_back({Op::kCollective, comm, 0, in, out, 0, std::move(run), false});
    return ncclSuccess;
  }
  static ncclResult_t add_message(Op::Kind kind, ncclComm_t handle, cudaStream_t stream, int peer,
                                  const void* in, void* out, size_t size_bytes) {
    const std::lock_guard lock(current()->mutex_);
    Comm* const comm = comm_of(handle);
    comm->stream = current()->stream_of(stream);
    open_group().push_back({kind, comm, peer, in, out, size_bytes, {}, false});
    return ncclSuccess;
  }
  static size_t element_bytes(ncclDataType_t type) {
    switch (type) {
      case ncclUint8:
        return 1;
      case ncclFloat16:
      case ncclBfloat16:
        return 2;
      case ncclInt64:
      case ncclFloat64:
        return 8;
      default:
        return 4;
    }
  }

  // The op that `comm`'s rank runs now and that satisfies `wanted`, or null.
  template <typename Wanted>
  static Op* running(const Comm& comm, const Wanted& wanted) {
    if (comm.stream == nullptr || comm.stream->queue.empty()) return nullptr;
    for (Op& op : comm.stream->queue.front()) {
      if (!op.done && op.comm == &comm && wanted(op)) return &op;
    }
    return nullptr;
  }
  Comm* peer_of(const Comm& comm, int rank) {
    for (const std::unique_ptr<Comm>& other : comms_) {
      if (other->id == comm.id && other->rank == rank) return other.get();
    }
    return nullptr;
  }

  bool try_run(Op& op) {
    if (op.kind == Op::kSend) return false;  // its receive does it
    if (op.kind == Op::kBlocked) return false;
    if (op.kind == Op::kLocal) {
      std::vector<Op*> alone = {&op};
      op.run(alone);
      return op.done = true;
    }
    if (op.kind == Op::kReceive) {
      Comm* const sender = peer_of(*op.comm, op.peer);
      Op* const send = sender == nullptr ? nullptr : running(*sender, [&](const Op& other) {
        return other.kind == Op::kSend && other.peer == op.comm->rank;
      });
      if (send == nullptr) return false;
      std::memcpy(op.out, send->in, op.size_bytes);
      return send->done = op.done = true;
    }
    std::vector<Op*> all;
    for (int rank = 0; rank < op.comm->size; ++rank) {
      Comm* const peer = peer_of(*op.comm, rank);
      all.push_back(peer == nullptr ? nullptr : running(*peer, [](const Op& other) {
        return other.kind == Op::kCollective;
      }));
      if (all.back() == nullptr) return false;
    }
    op.run(all);
    for (Op* each : all) each->done = true;
    return true;
  }

  void run_what_can() {
    if (hangs) return;
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::unique_ptr<Stream>& stream : streams_) {
        if (stream->queue.empty()) continue;
        OpGroup& group = stream->queue.front();
        for (Op& op : group) moved = (!op.done && try_run(op)) || moved;
        if (std::all_of(group.begin(), group.end(), [](const Op& op) { return op.done; })) {
          stream->queue.pop_front();
          ++stream->finished;
          moved = true;
        }
      }
    }
  }

  static void fill_cuda(GpuLibrary& table);
  static void fill_nccl(GpuLibrary& table);
  static void fill_collectives(GpuLibrary& table);

  std::mutex mutex_;
  Stream default_stream_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::vector<void*> memory_;
  int num_ids_ = 0;
};

inline void FakeGpu::fill_cuda(GpuLibrary& table) {
  table.cudaGetDeviceCount = [](int* count) { return *count = 1, cudaSuccess; };
  table.cudaSetDevice = [](int) { return cudaSuccess; };
  table.cudaDeviceGetPCIBusId = [](char* text, int size, int) {
    return std::strncpy(text, "0000:01:00.0", static_cast<size_t>(size)), cudaSuccess;
  };
  table.cudaGetErrorString = [](cudaError_t) { return "a CUDA error"; };
  table.cudaGetLastError = [] { return cudaSuccess; };
  table.cudaMalloc = [](void** memory, size_t size) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    *memory = std::malloc(size + 1);
    gpu.memory_.push_back(*memory);
    return cudaSuccess;
  };
  table.cudaMallocAsync = [](void** memory, size_t size, cudaStream_t) {
    return current()->library()->cudaMalloc(memory, size);
  };
  table.cudaFree = [](void*) { return ++current()->num_freed, cudaSuccess; };  // at the end
  table.cudaFreeAsync = [](void*, cudaStream_t) { return ++current()->num_freed, cudaSuccess; };
  table.cudaMemcpy = [](void* to, const void* from, size_t size, cudaMemcpyKind) {
    return std::memcpy(to, from, size), cudaSuccess;
  };
  table.cudaMemset = [](void* to, int value, size_t size) {
    return std::memset(to, value, size), cudaSuccess;
  };
  table.cudaStreamSynchronize = [](cudaStream_t) { return cudaSuccess; };
  table.cudaMemcpyAsync = [](void* to, const void* from, size_t size, cudaMemcpyKind,
                             cudaStream_t stream) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    Op copy;
    copy.run = [=](std::vector<Op*>&) { std::memcpy(to, from, size); };
    append(*gpu.stream_of(stream), {copy});
    return cudaSuccess;
  };
  table.cudaPointerGetAttributes = [](cudaPointerAttributes* attributes, const void*) {
    *attributes = {};
    attributes->type = cudaMemoryTypeDevice;
    return cudaSuccess;
  };
  table.cudaStreamCreateWithFlags = [](cudaStream_t* stream, unsigned) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    *stream = handle<cudaStream_t>(gpu.streams_.emplace_back(std::make_unique<Stream>()).get());
    return cudaSuccess;
  };
  table.cudaStreamDestroy = [](cudaStream_t) { return cudaSuccess; };
  table.cudaStreamWaitEvent = [](cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; };
  table.cudaEventCreateWithFlags = [](cudaEvent_t* event, unsigned) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    *event = handle<cudaEvent_t>(gpu.events_.emplace_back(std::make_unique<Event>()).get());
    return cudaSuccess;
  };
  table.cudaEventDestroy = [](cudaEvent_t) { return cudaSuccess; };
  table.cudaEventRecord = [](cudaEvent_t event, cudaStream_t stream) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    Stream* const recorded = gpu.stream_of(stream);
    *reinterpret_cast<Event*>(event) = {recorded, recorded->queued};
    return cudaSuccess;
  };
  table.cudaEventQuery = [](cudaEvent_t event) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    gpu.run_what_can();
    const Event& recorded = *reinterpret_cast<Event*>(event);
    return recorded.stream->finished >= recorded.position ? cudaSuccess : cudaErrorNotReady;
  };
}

inline void FakeGpu::fill_nccl(GpuLibrary& table) {
  table.ncclGetUniqueId = [](ncclUniqueId* id) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    *id = {};
    std::strncpy(id->internal, std::to_string(++gpu.num_ids_).c_str(), 16);
    return ncclSuccess;
  };
  table.ncclCommInitRankConfig = [](ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    Comm& made = *gpu.comms_.emplace_back(std::make_unique<Comm>());
    made.id = id.internal;
    made.rank = rank;
    made.size = size;
    made.looks_until_settled = 3;
    *comm = handle<ncclComm_t>(&made);
    return config->blocking == 0 ? ncclInProgress : ncclInvalidArgument;
  };
  table.ncclCommGetAsyncError = [](ncclComm_t comm, ncclResult_t* state) {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    Comm& asked = *comm_of(comm);
    *state = gpu.refuses_ranks ? ncclInvalidUsage : gpu.failure.load();
    if (*state != ncclSuccess || asked.looks_until_settled == 0) return ncclSuccess;
    *state = ncclInProgress;
    if (--asked.looks_until_settled == 0 && !asked.launching.empty()) {
      append(*asked.stream, std::exchange(asked.launching, {}));
    }
    return ncclSuccess;
  };
  table.ncclCommFinalize = [](ncclComm_t) { return ncclSuccess; };
  table.ncclCommDestroy = [](ncclComm_t) { return ++current()->num_destroyed, ncclSuccess; };
  table.ncclCommAbort = [](ncclComm_t) {
    FakeGpu& gpu = *current();
    ++gpu.num_aborted;
    while (gpu.abort_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++gpu.num_abort_returned;
    return ncclSuccess;
  };
  table.ncclGetErrorString = [](ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited" : "invalid usage";
  };
  table.ncclGetLastError = [](ncclComm_t) { return "the last words"; };
  table.ncclGroupStart = [] { return open_group().clear(), ncclSuccess; };
  table.ncclGroupEnd = [] {
    FakeGpu& gpu = *current();
    const std::lock_guard lock(gpu.mutex_);
    OpGroup& group = open_group();
    if (group.empty()) return ncclSuccess;
    ++gpu.num_launches;
    Comm& comm = *group[0].comm;
    comm.launching = std::exchange(group, {});
    comm.looks_until_settled = 3;
    return ncclInProgress;
  };
}

inline void FakeGpu::fill_collectives(GpuLibrary& table) {
  struct Reduction {
    size_t count;  // of one rank's result
    ncclRedOp_t op;
    [[nodiscard]] float operator()(const std::vector<Op*>& all, size_t i) const {
      const auto value = [&](const Op* from) { return static_cast<const float*>(from->in)[i]; };
      float result = value(all[0]);
      for (size_t rank = 1; rank < all.size(); ++rank) {
        const float next = value(all[rank]);
        result = op == ncclMax   ? std::max(result, next)
                 : op == ncclMin ? std::min(result, next)
                                 : result + next;
      }
      return op == ncclAvg ? result / static_cast<float>(all.size()) : result;
    }
  };
  // Rank r gets the elements from first(r) on.
  static const auto reduce_into = [](const std::vector<Op*>& all, const Reduction& reduction,
                                     const std::function<size_t(size_t)>& first) {
    std::vector<std::vector<float>> results(all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      for (size_t i = 0; i < reduction.count; ++i) {
        results[rank].push_back(reduction(all, first(rank) + i));
      }
    }
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank]->out == nullptr) continue;
      std::memcpy(all[rank]->out, results[rank].data(), reduction.count * sizeof(float));
    }
  };
  table.ncclAllReduce = [](const void* in, void* out, size_t count, ncclDataType_t, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    return add_collective(comm, stream, in, out, [=](std::vector<Op*>& all) {
      reduce_into(all, {count, op}, [](size_t) { return 0; });
    });
  };
  table.ncclReduce = [](const void* in, void* out, size_t count, ncclDataType_t, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
    const bool mine = comm_of(comm)->rank == root;
    return add_collective(comm, stream, in, mine ? out : nullptr, [=](std::vector<Op*>& all) {
      reduce_into(all, {count, op}, [](size_t) { return 0; });
    });
  };
  table.ncclReduceScatter = [](const void* in, void* out, size_t count, ncclDataType_t,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add_collective(comm, stream, in, out, [=](std::vector<Op*>& all) {
      reduce_into(all, {count, op}, [=](size_t rank) { return rank * count; });
    });
  };
  table.ncclAllGather = [](const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * element_bytes(type);
    return add_collective(comm, stream, in, out, [=](std::vector<Op*>& all) {
      for (const Op* to : all) {
        for (size_t rank = 0; rank < all.size(); ++rank) {
          std::memmove(static_cast<char*>(to->out) + rank * bytes, all[rank]->in, bytes);
        }
      }
    });
  };
  table.ncclBroadcast = [](const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * element_bytes(type);
    return add_collective(comm, stream, in, out, [=](std::vector<Op*>& all) {
      for (const Op* to : all) {
        std::memmove(to->out, all[static_cast<size_t>(root)]->in, bytes);
      }
    });
  };
  table.ncclSend = [](const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return add_message(Op::kSend, comm, stream, peer, in, nullptr, count * element_bytes(type));
  };
  table.ncclRecv = [](void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return add_message(Op::kReceive, comm, stream, peer, nullptr, out, count * element_bytes(type));
  };
}

inline std::shared_ptr<const GpuLibrary> FakeGpu::library() const {
  const auto table = std::make_shared<GpuLibrary>();
  fill_cuda(*table);
  fill_nccl(*table);
  fill_collectives(*table);
  return table;
}

}  // namespace tessera::nccl::testing
