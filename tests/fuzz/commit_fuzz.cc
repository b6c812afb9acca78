// COMMIT of a checkpoint, and the acknowledgements of ranks: as they come, and with a sum that is
// right.
#include "base/crc32c.h"
#include "checkpoint/store/commit_file.h"
#include "checkpoint/store/shard_writer.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string text = fuzz::text_of(data, size);
  fuzz::read_or_refuse([&] { (void)parse_commit(text, "f"); });
  fuzz::read_or_refuse([&] { (void)parse_ack(text); });
  const std::string line = text.substr(0, text.find('\n')) + "\n";
  CommitFile commit;
  const bool read = fuzz::read_or_refuse(
      [&] { commit = parse_commit(line + fmt::format("crc32c {:08x}\n", crc32c(line)), "f"); });
  if (!read) return 0;
  const std::string again = text_of_commit(commit);
  fuzz::expect(text_of_commit(parse_commit(again, "f")) == again);
  return 0;
}
