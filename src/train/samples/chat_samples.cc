#include "train/samples/chat_samples.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/text/text.h"
#include "data/chat_folder.h"
#include "data/conversation.h"
#include "data/template/assistant_spans.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

// Offsets of tokens count characters, spans of a text bytes.
std::vector<size_t> first_bytes(const std::string& text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0U) != 0x80U) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

// A token is learned where its first byte is the assistant's: one that begins before the turn is
// part of what the model is given.
bool begins_in(const std::vector<TextSpan>& spans, size_t byte) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const TextSpan& span) { return byte >= span.begin && byte < span.end; });
}

// Templates are parsed once each. Dates that a template prints would make a run depend on its day.
class ChatReader {
 public:
  explicit ChatReader(const std::string& folder)
      : folder_(read_chat_folder(folder)),
        tokenizer_(Tokenizer::load(folder)),
        encoder_(tokenizer_) {}

  [[nodiscard]] RenderedChat render(const std::string& line, const std::string& place) {
    nlohmann::ordered_json context = folder_.special_tokens;
    context.update(parse_conversation(line, place));
    const bool has_tools = context["tools"].is_array() && !context["tools"].empty();
    const NamedTemplate& named = choose_template(folder_, "", has_tools);
    auto found = parsed_.find(named.name);
    if (found == parsed_.end()) {
      found = parsed_.emplace(named.name, ChatTemplate::parse(named.source, named.place)).first;
    }
    try {
      return render_for_training(found->second, context, std::nullopt);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", place, error.what()));
    }
  }

  // The template has written the special tokens.
  [[nodiscard]] Encoding encode(const std::string& text) {
    return encoder_.encode_with_offsets(text, /*add_special=*/false);
  }

 private:
  ChatFolder folder_;
  Tokenizer tokenizer_;
  TokenEncoder encoder_;
  std::map<std::string, ChatTemplate> parsed_;
};

}  // namespace

ChatSamples::ChatSamples(const RunSpec& spec, const std::string& file) {
  ChatReader reader(spec.data.tokenizer.empty() ? spec.model.hf : spec.data.tokenizer);
  std::ifstream in(file, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", file);
  const auto room = static_cast<size_t>(spec.train.seq_len) + 1;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (trim(line).empty()) continue;
    const std::string place = fmt::format("{}:{}", file, number);
    const RenderedChat rendered = reader.render(line, place);
    const Encoding encoding = reader.encode(rendered.text);
    const std::vector<size_t> starts = first_bytes(rendered.text);
    Chat chat;
    bool any = false;
    for (size_t i = 0; i < std::min(encoding.ids.size(), room); ++i) {
      const int32_t id = encoding.ids[i];
      require_config(id < spec.model.vocab,
                     "{}: the tokenizer gives id {} but model.vocab is {}: they do not belong "
                     "together",
                     place, id, spec.model.vocab);
      const bool learned = begins_in(rendered.generated, starts.at(encoding.offsets[i].begin));
      chat.ids.push_back(id);
      chat.learned.push_back(learned);
      any = any || (learned && i > 0);
    }
    if (encoding.ids.size() > room) ++cut_;
    if (!any) {
      ++silent_;
      continue;
    }
    chats_.push_back(std::move(chat));
  }
  require_config(!chats_.empty(),
                 "'{}' has no conversation in whose first {} tokens an assistant says something",
                 file, spec.train.seq_len);
  if (spec.data.document_mask) {
    pack(static_cast<size_t>(spec.train.seq_len));
  } else {
    for (size_t i = 0; i < chats_.size(); ++i) sequences_.push_back({i});
  }
}

// Best fit, long ones first: each goes where it leaves the least room, of equals to the sequence
// that was begun last. Within a sequence they keep the order of the file.
void ChatSamples::pack(size_t seq_len) {
  std::vector<size_t> order(chats_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return chats_[a].length() > chats_[b].length(); });
  std::multimap<size_t, size_t> room;  // left, and in which sequence
  for (const size_t chat : order) {
    const size_t length = chats_[chat].length();
    auto place = room.lower_bound(length);
    if (place == room.end()) {
      sequences_.emplace_back();
      place = room.emplace(seq_len, sequences_.size() - 1);
    }
    const auto [left, sequence] = *place;
    room.erase(place);
    sequences_[sequence].push_back(chat);
    if (left > length) room.emplace(left - length, sequence);
  }
  for (std::vector<size_t>& chats : sequences_) std::sort(chats.begin(), chats.end());
}

void ChatSamples::fill(int64_t sequence, std::span<int32_t> tokens,
                       std::span<int32_t> labels) const {
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(labels.begin(), labels.end(), kMaskedLabel);
  size_t begin = 0;
  for (const size_t i : sequences_[static_cast<size_t>(sequence)]) {
    const Chat& x = chats_[i];
    // The last token has a place where the next conversation does not want it.
    for (size_t t = 0; t < x.ids.size() && begin + t < tokens.size(); ++t) {
      tokens[begin + t] = x.ids[t];
      if (t < x.length() && x.learned[t + 1]) labels[begin + t] = x.ids[t + 1];
    }
    begin += x.length();
  }
}

void ChatSamples::starts(int64_t sequence, std::span<int32_t> starts) const {
  size_t begin = 0;
  for (const size_t i : sequences_[static_cast<size_t>(sequence)]) {
    const size_t length = chats_[i].length();
    std::fill_n(starts.begin() + static_cast<ptrdiff_t>(begin), length,
                static_cast<int32_t>(begin));
    begin += length;
  }
  std::fill(starts.begin() + static_cast<ptrdiff_t>(begin), starts.end(),
            static_cast<int32_t>(begin));
}

Samples in_file_order(const std::shared_ptr<const ChatSamples>& chats) {
  return {[chats](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
            chats->fill(sample, tokens, labels);
          },
          [chats](int64_t sample, std::span<int32_t> starts) { chats->starts(sample, starts); }};
}

Samples chat_samples(const RunSpec& spec) {
  const auto chats = std::make_shared<const ChatSamples>(spec, spec.data.chats);
  const Samples all = in_file_order(chats);
  // Windows of one token each: their order is that of the sequences.
  const Sampler order(chats->count() + 1, 1, spec.train.seed);
  return {[all, order](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
            all.fill(order.sample_start(sample), tokens, labels);
          },
          [all, order](int64_t sample, std::span<int32_t> starts) {
            all.starts(order.sample_start(sample), starts);
          }};
}

}  // namespace tessera
