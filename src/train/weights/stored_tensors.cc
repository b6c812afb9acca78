#include "train/weights/stored_tensors.h"

#include <cstring>
#include <set>

#include "train/state/bucket_runs.h"

namespace tessera {

void put_into_stored(const LogicalTensor& tensor, std::span<const std::byte> whole,
                     int64_t element_bytes, std::span<std::byte> stored) {
  for_each_stored_run(tensor, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(stored.data() + to * element_bytes, whole.data() + from * element_bytes,
                static_cast<size_t>(count * element_bytes));
  });
}

std::vector<StoredShape> stored_shapes(const ParameterLayout& layout) {
  std::vector<StoredShape> shapes;
  std::set<std::string> seen;
  for (const Bucket& bucket : layout.buckets) {
    for_each_tensor(bucket, [&](const LogicalTensor& t) {
      if (seen.insert(t.stored.name).second) shapes.push_back({t.stored.name, t.stored.shape});
    });
  }
  return shapes;
}

}  // namespace tessera
