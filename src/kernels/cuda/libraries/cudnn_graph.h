// An operation graph of cuDNN, made tensor by tensor and operation by operation, and the plan that
// cuDNN makes of it. Everything that cuDNN refuses throws Error.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/libraries/library.h"

namespace tessera::kernels::cuda {

struct DescriptorDeleter {
  std::shared_ptr<const Cudnn> cudnn;
  void operator()(cudnnBackendDescriptor_t descriptor) const {
    (void)cudnn->cudnnBackendDestroyDescriptor(descriptor);
  }
};
using CudnnDescriptor = std::unique_ptr<void, DescriptorDeleter>;

// A number that operations read; it travels with every execution.
struct CudnnScalar {
  int64_t id;
  float value;
};

// What can be executed, with the tensors of the graph anywhere in memory.
struct CudnnExecutable {
  CudnnDescriptor descriptor;
  std::vector<CudnnScalar> scalars;
  int64_t workspace_bytes = 0;

  // `tensors`: the memory of every id. Puts the work on the stream of the handle.
  void execute(cudnnHandle_t handle, std::span<const std::pair<int64_t, void*>> tensors,
               void* workspace);
};

class CudnnGraph {
 public:
  using Dims = std::array<int64_t, 4>;
  using Tensor = cudnnBackendDescriptor_t;  // the graph owns it

  explicit CudnnGraph(std::shared_ptr<const Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}

  // In memory that every execution names by this id, which is below kFirstOwnId.
  Tensor tensor(int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides);
  // Between two operations, never stored.
  Tensor between(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  Tensor scalar(float value);

  // y = mode(inputs), element by element; `axis` is that of an index.
  void pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs, Tensor y,
                 cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void matmul(Tensor a, Tensor b, Tensor c);
  void reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // Those of cuDNN's suggestions, best first, that can be compiled, up to so many; may be empty.
  [[nodiscard]] std::vector<CudnnExecutable> plans(cudnnHandle_t handle, size_t most) const;

  static constexpr int64_t kFirstOwnId = 1000;

 private:
  Tensor make_tensor(int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides,
                     bool is_virtual, bool by_value);
  void add_operation(CudnnDescriptor operation);

  std::shared_ptr<const Cudnn> cudnn_;
  std::vector<CudnnDescriptor> parts_;  // tensors, and what operations refer to
  std::vector<CudnnDescriptor> operations_;
  std::vector<CudnnScalar> scalars_;
  int64_t next_id_ = kFirstOwnId;
};

}  // namespace tessera::kernels::cuda
