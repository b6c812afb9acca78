#include "kernels/cuda/libraries/cudnn_graph.h"

#include "base/error.h"

namespace tessera::kernels::cuda {
namespace {

CudnnDescriptor create(const std::shared_ptr<const Cudnn>& cudnn,
                       cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  cudnn->check(cudnn->cudnnBackendCreateDescriptor(type, &descriptor), "making a descriptor");
  return {descriptor, DescriptorDeleter{cudnn}};
}

// cuDNN takes every attribute as an array of one of its types.
template <typename T>
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, std::span<const T> values) {
  const Cudnn& cudnn = *descriptor.get_deleter().cudnn;
  cudnn.check(cudnn.cudnnBackendSetAttribute(descriptor.get(), name, type,
                                             static_cast<int64_t>(values.size()), values.data()),
              "setting an attribute");
}
template <typename T>
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, const T& value) {
  set(descriptor, name, type, std::span<const T>(&value, 1));
}
void set_part(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
              cudnnBackendDescriptor_t part) {
  set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part);
}

void finalize(const CudnnDescriptor& descriptor, const char* what) {
  const Cudnn& cudnn = *descriptor.get_deleter().cudnn;
  cudnn.check(cudnn.cudnnBackendFinalize(descriptor.get()), what);
}

// Adds ways to compute a graph, best first.
void suggest(const std::shared_ptr<const Cudnn>& cudnn, const CudnnDescriptor& graph,
             cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor>& ways) {
  const CudnnDescriptor heuristics = create(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  finalize(heuristics, "asking how to compute a graph");
  int64_t count = 0;
  const auto results = [&](int64_t wanted, cudnnBackendDescriptor_t* to) {
    cudnn->check(cudnn->cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &count, to),
                 "asking how to compute a graph");
  };
  results(0, nullptr);
  const size_t known = ways.size();
  std::vector<cudnnBackendDescriptor_t> borrowed;
  for (int64_t i = 0; i < count; ++i) {
    ways.push_back(create(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    borrowed.push_back(ways.back().get());
  }
  results(count, borrowed.data());
  ways.resize(known + static_cast<size_t>(count));
}

}  // namespace

CudnnGraph::Tensor CudnnGraph::make_tensor(int64_t id, cudnnDataType_t type, const Dims& dims,
                                           const Dims& strides, bool is_virtual, bool by_value) {
  CudnnDescriptor tensor = create(cudnn_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  constexpr int64_t kAlignment = 16;
  set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(dims));
  set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides));
  set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  finalize(tensor, "describing a tensor");
  parts_.push_back(std::move(tensor));
  return parts_.back().get();
}

CudnnGraph::Tensor CudnnGraph::tensor(int64_t id, cudnnDataType_t type, const Dims& dims,
                                      const Dims& strides) {
  TESSERA_CHECK(id < kFirstOwnId, "tensor {} of a cuDNN graph", id);
  return make_tensor(id, type, dims, strides, false, false);
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Dims& dims,
                                       const Dims& strides) {
  return make_tensor(next_id_++, type, dims, strides, true, false);
}

CudnnGraph::Tensor CudnnGraph::scalar(float value) {
  scalars_.push_back({next_id_++, value});
  return make_tensor(scalars_.back().id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

void CudnnGraph::add_operation(CudnnDescriptor operation) {
  finalize(operation, "adding an operation");
  operations_.push_back(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs,
                           Tensor y, cudnnDataType_t arithmetic, int64_t axis) {
  CudnnDescriptor how = create(cudnn_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, arithmetic);
  if (axis >= 0) set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  finalize(how, "describing an operation");
  CudnnDescriptor operation = create(cudnn_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get());
  constexpr std::array kInputs{CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                               CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                               CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  TESSERA_CHECK(inputs.size() <= kInputs.size(), "{} inputs of one operation", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) set_part(operation, kInputs[i], inputs.begin()[i]);
  set_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_operation(std::move(operation));
  parts_.push_back(std::move(how));
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor how = create(cudnn_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finalize(how, "describing a product");
  CudnnDescriptor operation = create(cudnn_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_part(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get());
  set_part(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_part(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_part(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  add_operation(std::move(operation));
  parts_.push_back(std::move(how));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y) {
  CudnnDescriptor how = create(cudnn_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finalize(how, "describing a reduction");
  CudnnDescriptor operation = create(cudnn_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_part(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get());
  set_part(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_part(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add_operation(std::move(operation));
  parts_.push_back(std::move(how));
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor operation = create(cudnn_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_part(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_part(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add_operation(std::move(operation));
}

std::vector<CudnnExecutable> CudnnGraph::plans(cudnnHandle_t handle, size_t most) const {
  const CudnnDescriptor graph = create(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      std::span<const cudnnBackendDescriptor_t>(operations));
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  finalize(graph, "making a graph");
  std::vector<CudnnDescriptor> ways;
  suggest(cudnn_, graph, CUDNN_HEUR_MODE_A, ways);
  if (ways.size() < most) suggest(cudnn_, graph, CUDNN_HEUR_MODE_FALLBACK, ways);
  std::vector<CudnnExecutable> plans;
  for (const CudnnDescriptor& way : ways) {
    if (plans.size() == most) break;
    CudnnExecutable plan{create(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), scalars_};
    set(plan.descriptor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    set_part(plan.descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, way.get());
    if (cudnn_->cudnnBackendFinalize(plan.descriptor.get()) != CUDNN_STATUS_SUCCESS) continue;
    int64_t count = 0;
    cudnn_->check(cudnn_->cudnnBackendGetAttribute(
                      plan.descriptor.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                      CUDNN_TYPE_INT64, 1, &count, &plan.workspace_bytes),
                  "asking for the scratch of a plan");
    plans.push_back(std::move(plan));
  }
  return plans;
}

void CudnnExecutable::execute(cudnnHandle_t handle,
                              std::span<const std::pair<int64_t, void*>> tensors, void* workspace) {
  const std::shared_ptr<const Cudnn>& cudnn = descriptor.get_deleter().cudnn;
  std::vector<int64_t> ids;
  std::vector<void*> places;
  for (const auto& [id, place] : tensors) {
    ids.push_back(id);
    places.push_back(place);
  }
  for (CudnnScalar& scalar : scalars) {
    ids.push_back(scalar.id);
    places.push_back(&scalar.value);
  }
  const CudnnDescriptor pack = create(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(ids));
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      std::span<void* const>(places));
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  finalize(pack, "naming the tensors of a plan");
  cudnn->check(cudnn->cudnnBackendExecute(handle, descriptor.get(), pack.get()),
               "executing a plan");
}

}  // namespace tessera::kernels::cuda
