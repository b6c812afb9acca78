// A tokenizer.json, and, behind a byte of zero, a text for it.
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode/unicode.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string bytes = fuzz::text_of(data, size);
  const size_t cut = bytes.find('\0');
  const std::string sample = cut == std::string::npos
                                 ? "Hello <s> w\xC3\xB6rld \xE6\x97\xA5 1\n <|end|>"
                                 : bytes.substr(cut + 1);
  fuzz::read_or_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::parse(bytes.substr(0, cut), "fuzzed");
    TokenEncoder encoder(tokenizer);
    std::vector<int32_t> ids;
    encoder.encode(sample, true, ids);
    fuzz::expect(encoder.encode_with_offsets(sample, true).ids == ids);
    for (const int32_t id : ids) fuzz::expect(id >= 0 && id < tokenizer.vocab_size());
    const std::string text = tokenizer.decode(ids, true);
    fuzz::expect(valid_prefix(text) == text.size());
    StreamDecoder stream(tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    fuzz::expect(valid_prefix(streamed) == streamed.size());
  });
  return 0;
}
