// manifest.json of a checkpoint.
#include "checkpoint/store/manifest.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  Manifest manifest;
  const bool read =
      fuzz::read_or_refuse([&] { manifest = parse_manifest(fuzz::text_of(data, size), "f"); });
  if (!read) return 0;
  // What was read is written as something that reads the same.
  const std::string text = dump_store_json(to_json(manifest));
  fuzz::expect(dump_store_json(to_json(parse_manifest(text, "f"))) == text);
  return 0;
}
