// The stream of bytes that comes to a rendezvous, and the file through which ranks find it.
#include "fuzz_target.h"
#include "launch/rendezvous/meeting_file.h"
#include "launch/rendezvous/rendezvous_frame.h"

namespace {

using namespace tessera;

constexpr size_t kMostBody = 4096;

void parse(const Frame& frame) {
  fuzz::expect(frame.body.size() <= kMostBody);
  fuzz::read_or_refuse([&] {
    const Hello hello = parse_hello(frame);
    fuzz::expect(to_bytes(hello) == to_bytes(Frame{.kind = FrameKind::kHello, .body = frame.body}));
  });
  fuzz::read_or_refuse([&] {
    const Table table = parse_table(frame);
    fuzz::expect(to_bytes(table) == to_bytes(Frame{.kind = FrameKind::kTable, .body = frame.body}));
  });
  fuzz::read_or_refuse([&] { (void)parse_refusal(frame); });
  fuzz::read_or_refuse([&] { (void)parse_text(frame); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes = fuzz::text_of(data, size);
  (void)parse_meeting_note(bytes);
  fuzz::read_or_refuse([&] {
    while (const std::optional<Frame> frame = take_frame(bytes, kMostBody)) parse(*frame);
  });
  fuzz::expect(bytes.size() <= size);
  return 0;
}
