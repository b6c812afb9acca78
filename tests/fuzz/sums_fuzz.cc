// data-*.crc of a checkpoint: as it comes, and with a sum over it that is right.
#include "base/crc32c.h"
#include "checkpoint/store/block_sums.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  std::string text = fuzz::text_of(data, size);
  fuzz::read_or_refuse([&] { (void)parse_sums(text, "f"); });
  const uint32_t sum = crc32c(text);
  for (int b = 0; b < 4; ++b) text += static_cast<char>(sum >> (8 * b) & 0xFF);
  FileSums sums;
  if (fuzz::read_or_refuse([&] { sums = parse_sums(text, "f"); })) {
    fuzz::expect(text_of_sums(sums) == text);
  }
  return 0;
}
