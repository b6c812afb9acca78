// state.json of a checkpoint: its JSON and the head that the store looks at.
#include "checkpoint/store/store_json.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string text = fuzz::text_of(data, size);
  fuzz::read_or_refuse([&] {
    const nlohmann::json json = parse_store_json(text, "f");
    const std::string written = dump_store_json(json);
    fuzz::expect(dump_store_json(parse_store_json(written, "f")) == written);
    (void)parse_head(StoreValue(json, "f"), "f");
  });
  return 0;
}
