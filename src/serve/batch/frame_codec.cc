#include "serve/batch/frame_codec.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/error.h"
#include "serve/batch/byte_list.h"

namespace tessera::serve {
namespace {

constexpr uint8_t kFrameVersion = 2;
constexpr uint8_t kFrameKind = 'F', kMasksKind = 'M', kResultKind = 'R';
// Longer lists are no request that anybody meant.
constexpr size_t kMostLogprobs = 1024;

// A row names its sampling by its place among those of the frame.
void put_sampling(ByteList& bytes, const Sampling& how) {
  for (const double value : {how.temperature, how.top_p, how.min_p, how.presence_penalty,
                             how.frequency_penalty, how.repetition_penalty}) {
    bytes.put(value);
  }
  bytes.put(how.top_k);
  bytes.put(how.seed);
  bytes.put(static_cast<int32_t>(how.logprobs));
  bytes.put_count(how.logit_bias.size());
  for (const auto& [token, bias] : how.logit_bias) {
    bytes.put(token);
    bytes.put(bias);
  }
}

void put_row(ByteList& bytes, const FrameRow& row, uint32_t sampling) {
  bytes.put(row.token_index);
  bytes.put(sampling);
  bytes.put(row.sampling.choice);
  bytes.put(row.sampling.position);
  bytes.put_count(row.sampling.counts.size());
  for (const TokenCount& seen : row.sampling.counts) {
    bytes.put(seen.token);
    bytes.put(seen.in_answer);
  }
  bytes.put_all(row.sampling.allowed);
}

// What the numbers of a frame may be.
class FrameReader {
 public:
  FrameReader(std::span<const std::byte> bytes, const ServeShape& shape)
      : bytes_(bytes), shape_(shape) {}

  Frame frame() {
    begin(kFrameKind, "frame");
    Frame frame;
    frame.number = bytes_.get<uint64_t>("the frame's number");
    frame.tokens = bytes_.get_all<int32_t>("tokens", most(shape_.max_tokens));
    for (const int32_t token : frame.tokens) check_token(token, "a frame");
    read_sequences(frame);
    std::vector<std::shared_ptr<const Sampling>> samplings;
    const size_t num_samplings = bytes_.count("samplings", most(shape_.max_rows));
    for (size_t i = 0; i < num_samplings; ++i) samplings.push_back(sampling());
    const size_t num_rows = bytes_.count("rows", most(shape_.max_rows));
    for (size_t i = 0; i < num_rows; ++i) frame.rows.push_back(row(frame, samplings));
    read_copies(frame);
    frame.masks_follow = flag("masks_follow");
    bytes_.end();
    return frame;
  }

  FrameMasks masks() {
    begin(kMasksKind, "list of masks");
    FrameMasks masks;
    masks.number = bytes_.get<uint64_t>("the frame's number");
    const size_t num_rows = bytes_.count("masks", most(shape_.max_rows));
    for (size_t i = 0; i < num_rows; ++i) masks.rows.push_back(mask());
    bytes_.end();
    return masks;
  }

  FrameResult result() {
    begin(kResultKind, "result of a frame");
    FrameResult result;
    result.number = bytes_.get<uint64_t>("the frame's number");
    const size_t num_tokens = bytes_.count("sampled tokens", most(shape_.max_rows));
    for (size_t i = 0; i < num_tokens; ++i) result.tokens.push_back(sampled());
    bytes_.end();
    return result;
  }

 private:
  static size_t most(int64_t count) { return static_cast<size_t>(std::max<int64_t>(count, 0)); }

  void begin(uint8_t kind, std::string_view name) {
    const auto version = bytes_.get<uint8_t>("the version");
    require(version == kFrameVersion,
            "a {} of version {}; this program knows {}: run the same "
            "program on all ranks",
            name, version, kFrameVersion);
    const auto found = bytes_.get<uint8_t>("the kind");
    require(found == kind, "bytes of the kind {} are no {}", found, name);
  }

  void check_token(int32_t token, std::string_view where) const {
    require(token >= 0 && token < shape_.vocab, "{} has the token {}; the vocabulary has {}", where,
            token, shape_.vocab);
  }
  void check_page(int32_t page) const {
    require(page >= 0 && page < shape_.num_pages, "a frame has the page {}; the cache has {}", page,
            shape_.num_pages);
  }

  void read_sequences(Frame& frame) {
    const size_t num_sequences = bytes_.count("sequences", most(shape_.max_sequences));
    size_t num_tokens = 0;
    for (size_t i = 0; i < num_sequences; ++i) {
      FrameSequence sequence;
      sequence.num_tokens = bytes_.get<int32_t>("the tokens of a sequence");
      sequence.cached = bytes_.get<int32_t>("the cached tokens of a sequence");
      require(sequence.num_tokens > 0 && sequence.cached >= 0 &&
                  int64_t{sequence.num_tokens} + sequence.cached <= shape_.max_context,
              "sequence {} of a frame has {} tokens behind {}; a context has {}", i,
              sequence.num_tokens, sequence.cached, shape_.max_context);
      const int64_t end = int64_t{sequence.num_tokens} + sequence.cached;
      const size_t pages = most((end + shape_.page_size - 1) / shape_.page_size);
      sequence.pages = bytes_.get_all<int32_t>("pages of a sequence", pages);
      require(sequence.pages.size() == pages,
              "sequence {} of a frame has {} pages; {} tokens need "
              "{}",
              i, sequence.pages.size(), end, pages);
      for (const int32_t page : sequence.pages) check_page(page);
      num_tokens += static_cast<size_t>(sequence.num_tokens);
      frame.sequences.push_back(std::move(sequence));
    }
    require(num_tokens == frame.tokens.size(),
            "the sequences of a frame have {} tokens, the frame "
            "{}",
            num_tokens, frame.tokens.size());
  }

  double real(std::string_view what) {
    const auto value = bytes_.get<double>(what);
    require(std::isfinite(value), "{} is {}", what, value);
    return value;
  }

  int32_t token(std::string_view where) {
    const auto value = bytes_.get<int32_t>(where);
    check_token(value, where);
    return value;
  }

  std::shared_ptr<const Sampling> sampling() {
    Sampling how;
    how.temperature = real("temperature");
    how.top_p = real("top_p");
    how.min_p = real("min_p");
    how.presence_penalty = real("presence_penalty");
    how.frequency_penalty = real("frequency_penalty");
    how.repetition_penalty = real("repetition_penalty");
    how.top_k = bytes_.get<int64_t>("top_k");
    how.seed = bytes_.get<uint64_t>("seed");
    how.logprobs = bytes_.get<int32_t>("logprobs");
    require(how.logprobs >= -1 && how.logprobs <= static_cast<int>(kMostLogprobs),
            "logprobs is {}; the most is {}", how.logprobs, kMostLogprobs);
    const size_t num_biases = bytes_.count("logit_bias", most(shape_.vocab));
    for (size_t i = 0; i < num_biases; ++i) {
      const int32_t id = token("logit_bias");
      how.logit_bias.emplace_back(id, real("logit_bias"));
    }
    return std::make_shared<const Sampling>(std::move(how));
  }

  FrameRow row(const Frame& frame, std::span<const std::shared_ptr<const Sampling>> samplings) {
    FrameRow row;
    row.token_index = bytes_.get<int32_t>("the token of a row");
    require(row.token_index >= 0 && static_cast<size_t>(row.token_index) < frame.tokens.size(),
            "a row is of token {}; the frame has {}", row.token_index, frame.tokens.size());
    const auto which = bytes_.get<uint32_t>("the sampling of a row");
    require(which < samplings.size(), "a row has sampling {}; the frame has {}", which,
            samplings.size());
    row.sampling.how = samplings[which];
    row.sampling.choice = bytes_.get<uint32_t>("the choice of a row");
    row.sampling.position = bytes_.get<int64_t>("the position of a row");
    require(row.sampling.position >= 0, "a row has the position {}", row.sampling.position);
    const size_t num_counts = bytes_.count("counts of a row", most(shape_.vocab));
    for (size_t i = 0; i < num_counts; ++i) {
      TokenCount seen;
      seen.token = token("counts of a row");
      seen.in_answer = bytes_.get<int32_t>("counts of a row");
      require(seen.in_answer >= 0, "a row has a token {} times", seen.in_answer);
      row.sampling.counts.push_back(seen);
    }
    row.sampling.allowed = mask();
    return row;
  }

  std::vector<uint32_t> mask() {
    const size_t words = most((shape_.vocab + 31) / 32);
    std::vector<uint32_t> mask = bytes_.get_all<uint32_t>("the mask of a row", words);
    require(mask.empty() || mask.size() == words,
            "the mask of a row has {} words; {} tokens need {}", mask.size(), shape_.vocab, words);
    return mask;
  }

  bool flag(std::string_view name) {
    const auto value = bytes_.get<uint8_t>(name);
    require(value <= 1, "{} is {}", name, value);
    return value == 1;
  }

  void read_copies(Frame& frame) {
    const size_t num_copies = bytes_.count("copies", most(shape_.max_sequences));
    for (size_t i = 0; i < num_copies; ++i) {
      PageCopy copy;
      copy.from = bytes_.get<int32_t>("a copied page");
      copy.to = bytes_.get<int32_t>("a copied page");
      check_page(copy.from);
      check_page(copy.to);
      frame.copies.push_back(copy);
    }
  }

  SampledToken sampled() {
    SampledToken sampled;
    sampled.token = token("a result");
    sampled.logprob = bytes_.get<double>("a log probability");
    sampled.finite = flag("finite");
    const size_t num_top = bytes_.count("likeliest tokens", kMostLogprobs);
    for (size_t i = 0; i < num_top; ++i) {
      const int32_t id = token("the likeliest tokens");
      sampled.top.push_back({id, bytes_.get<double>("a log probability")});
    }
    return sampled;
  }

  ByteReader bytes_;
  const ServeShape& shape_;
};

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  ByteList bytes;
  bytes.put(kFrameVersion);
  bytes.put(kFrameKind);
  bytes.put(frame.number);
  bytes.put_all(frame.tokens);
  bytes.put_count(frame.sequences.size());
  for (const FrameSequence& sequence : frame.sequences) {
    bytes.put(sequence.num_tokens);
    bytes.put(sequence.cached);
    bytes.put_all(sequence.pages);
  }
  std::vector<const Sampling*> samplings;
  std::map<const Sampling*, uint32_t> places;
  for (const FrameRow& row : frame.rows) {
    TESSERA_CHECK(row.sampling.how != nullptr, "a row without a Sampling");
    if (places.emplace(row.sampling.how.get(), samplings.size()).second) {
      samplings.push_back(row.sampling.how.get());
    }
  }
  bytes.put_count(samplings.size());
  for (const Sampling* how : samplings) put_sampling(bytes, *how);
  bytes.put_count(frame.rows.size());
  for (const FrameRow& row : frame.rows) {
    put_row(bytes, row, places.at(row.sampling.how.get()));
  }
  bytes.put_count(frame.copies.size());
  for (const PageCopy& copy : frame.copies) {
    bytes.put(copy.from);
    bytes.put(copy.to);
  }
  bytes.put(static_cast<uint8_t>(frame.masks_follow));
  return bytes.take();
}

std::vector<std::byte> encode(const FrameMasks& masks) {
  ByteList bytes;
  bytes.put(kFrameVersion);
  bytes.put(kMasksKind);
  bytes.put(masks.number);
  bytes.put_count(masks.rows.size());
  for (const std::vector<uint32_t>& mask : masks.rows) bytes.put_all(mask);
  return bytes.take();
}

std::vector<std::byte> encode(const FrameResult& result) {
  ByteList bytes;
  bytes.put(kFrameVersion);
  bytes.put(kResultKind);
  bytes.put(result.number);
  bytes.put_count(result.tokens.size());
  for (const SampledToken& sampled : result.tokens) {
    bytes.put(sampled.token);
    bytes.put(sampled.logprob);
    bytes.put(static_cast<uint8_t>(sampled.finite));
    bytes.put_count(sampled.top.size());
    for (const TokenLogprob& likely : sampled.top) {
      bytes.put(likely.token);
      bytes.put(likely.logprob);
    }
  }
  return bytes.take();
}

Frame decode_frame(std::span<const std::byte> bytes, const ServeShape& shape) {
  return FrameReader(bytes, shape).frame();
}

FrameMasks decode_frame_masks(std::span<const std::byte> bytes, const ServeShape& shape) {
  return FrameReader(bytes, shape).masks();
}

FrameResult decode_frame_result(std::span<const std::byte> bytes, const ServeShape& shape) {
  return FrameReader(bytes, shape).result();
}

}  // namespace tessera::serve
