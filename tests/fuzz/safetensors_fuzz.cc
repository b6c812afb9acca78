// The header of a safetensors file: 4 bytes that say how much data follows it, then its JSON.
#include "checkpoint/safetensors_header.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  if (size < 4) return 0;
  int64_t data_bytes = 0;
  for (size_t i = 4; i-- > 0;) data_bytes = data_bytes << 8 | data[i];
  fuzz::read_or_refuse([&] {
    const SafetensorsHeader header =
        SafetensorsHeader::parse(fuzz::text_of(data + 4, size - 4), data_bytes, "f");
    int64_t end = 0;
    for (const TensorInfo& tensor : header.tensors()) {
      fuzz::expect(tensor.begin == end && tensor.end >= tensor.begin);
      fuzz::expect(header.find(tensor.name) == &tensor);
      end = tensor.end;
    }
    fuzz::expect(end == data_bytes);
  });
  return 0;
}
