// What the process that serves and its ranks tell each other. The first byte says what: a frame,
// the masks behind it, its result, the messages beside frames, or the stream of a link, in pieces.
#include <sys/socket.h>

#include <algorithm>

#include "fuzz_target.h"
#include "serve/batch/frame_codec.h"
#include "serve/ranks/rank_link.h"
#include "serve/ranks/rank_messages.h"

namespace {

using namespace tessera;
using namespace tessera::serve;
using Bytes = std::span<const std::byte>;

constexpr ServeShape kShape = {.vocab = 70,
                               .max_context = 200,
                               .page_size = 16,
                               .num_pages = 40,
                               .max_tokens = 64,
                               .max_sequences = 8,
                               .max_rows = 12};
constexpr size_t kMostBody = 4096;

// What was read is written as something that reads the same.
template <typename Decode>
void read_again(Bytes bytes, const Decode& decode) {
  fuzz::read_or_refuse([&] {
    const std::vector<std::byte> written = encode(decode(bytes, kShape));
    std::vector<std::byte> again;
    fuzz::expect(fuzz::read_or_refuse([&] { again = encode(decode(written, kShape)); }));
    fuzz::expect(again == written);
  });
}

void read_message(LinkKind kind, Bytes bytes) {
  switch (kind) {
    case LinkKind::kBegin:
      fuzz::read_or_refuse([&] {
        const auto written = bytes_of(task_from(bytes));
        fuzz::expect(bytes_of(task_from(written)) == written);
      });
      break;
    case LinkKind::kFrame:
      read_again(bytes, [](Bytes b, const ServeShape& shape) { return decode_frame(b, shape); });
      break;
    case LinkKind::kMasks:
      read_again(bytes,
                 [](Bytes b, const ServeShape& shape) { return decode_frame_masks(b, shape); });
      break;
    case LinkKind::kResult:
      read_again(bytes,
                 [](Bytes b, const ServeShape& shape) { return decode_frame_result(b, shape); });
      break;
    case LinkKind::kTimes:
      fuzz::read_or_refuse(
          [&] { fuzz::expect(std::ranges::equal(bytes_of(times_from(bytes)), bytes)); });
      break;
    default:
      fuzz::expect(text_from(bytes, 200).size() <= 200 * std::string_view("\\u0000").size());
  }
}

void read_stream(Bytes bytes, size_t piece) {
  LinkPair pair = make_link_pair();
  RankLink link(std::move(pair.front), "rank 1", kMostBody);
  for (size_t at = 0; at < bytes.size() && !link.closed(); at += piece) {
    const Bytes part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    if (::send(pair.rank.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) break;
    const bool right = fuzz::read_or_refuse([&] {
      while (const std::optional<LinkMessage> message = link.take()) {
        fuzz::expect(message->body.size() <= kMostBody);
        read_message(message->kind, message->body);
      }
    });
    if (!right) break;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  const uint32_t kind = data[0] % 16;
  if (kind >= 1 && kind <= static_cast<uint32_t>(LinkKind::kLast)) {
    read_message(static_cast<LinkKind>(kind), bytes);
  } else {
    read_stream(bytes, size_t{1} + data[0] / 16 * 31);
  }
  return 0;
}
