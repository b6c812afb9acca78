// The stream of bytes that comes to a port of a run on several hosts. The first byte says how it is
// taken: by a link without a key, by one with a key, or by the side that listens, with its
// handshake.
#include <sys/socket.h>

#include "fuzz_target.h"
#include "launch/hosts/handshake.h"
#include "launch/hosts/host_messages.h"

namespace {

using namespace tessera;

// Frames as an agent or a coordinator would read them.
void read_body(const ControlFrame& frame) {
  fuzz::read_or_refuse([&] { (void)parse_hello(frame.body); });
  fuzz::read_or_refuse([&] { (void)parse_report(frame.body); });
  fuzz::read_or_refuse([&] { (void)parse_start(frame.body); });
}

void take_all(ControlLink& link, HostHandshake* handshake) {
  while (std::optional<ControlFrame> frame = link.take()) {
    fuzz::expect(frame->body.size() <= kMaxControlBodyBytes);
    read_body(*frame);
    if (handshake != nullptr) (void)handshake->take(link, *frame);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  const UniqueFd peer(ends[1]);
  ControlLink link(UniqueFd(ends[0]), "somebody", /*is_host=*/true);
  if (data[0] % 3 == 1) link.use_key("key");
  HostHandshake handshake("token");
  HostHandshake* const shakes = data[0] % 3 == 2 ? &handshake : nullptr;
  // In pieces, as a network would bring them.
  const size_t piece = 1 + data[0] / 3 * 7;
  for (size_t at = 1; at < size && link.open(); at += piece) {
    const size_t count = std::min(piece, size - at);
    if (::send(peer.get(), data + at, count, MSG_NOSIGNAL) < 0) break;
    if (!fuzz::read_or_refuse([&] { take_all(link, shakes); })) break;
  }
  return 0;
}
