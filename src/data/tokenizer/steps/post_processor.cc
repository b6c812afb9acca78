#include "data/tokenizer/steps/post_processor.h"

#include <utility>

#include "base/error.h"
#include "base/text/printable.h"

namespace tessera {
namespace {

using TemplatePart = PostProcessing::Part;

std::vector<int32_t> read_ids(const JsonPlace& place) {
  std::vector<int32_t> ids;
  for (const JsonPlace& id : place.items()) ids.push_back(static_cast<int32_t>(id.whole()));
  return ids;
}

std::vector<TemplatePart> read_template(const JsonPlace& place) {
  std::vector<TemplatePart> parts;
  for (const JsonPlace& piece : place.at("single").items()) {
    if (piece.has("Sequence")) {
      const JsonPlace id = piece.at("Sequence").at("id");
      if (id.text() != "A") id.fail("expected 'A' where there is one text");
      parts.push_back({true, {}});
      continue;
    }
    if (!piece.has("SpecialToken")) piece.fail("expected Sequence or SpecialToken");
    const JsonPlace id = piece.at("SpecialToken").at("id");
    const JsonPlace known = place.at("special_tokens");
    if (!known.has(id.text())) {
      id.fail(fmt::format("'{}' is not among special_tokens", shortened(id.text())));
    }
    parts.push_back({false, read_ids(known.at(id.text()).at("ids"))});
  }
  return parts;
}

// ["</s>", 2]
int32_t read_token(const JsonPlace& place) {
  const std::vector<JsonPlace> pair = place.items();
  if (pair.size() != 2) place.fail("expected a token and its id");
  return static_cast<int32_t>(pair[1].whole());
}

void read_into(const JsonPlace& place, PostProcessing& result, bool& has_template) {
  const std::string type = place.type();
  const auto set_parts = [&](std::vector<TemplatePart> parts) {
    if (has_template) place.fail("a second post-processor that adds tokens");
    has_template = true;
    result.parts = std::move(parts);
  };
  if (type == "ByteLevel") {
    if (place.truth("trim_offsets", true)) {
      result.trims.push_back(place.truth("add_prefix_space", true));
    }
  } else if (type == "TemplateProcessing") {
    set_parts(read_template(place));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    if (type == "RobertaProcessing" && place.truth("trim_offsets", true)) {
      result.trims.push_back(place.truth("add_prefix_space", true));
    }
    set_parts({{false, {read_token(place.at("cls"))}},
               {true, {}},
               {false, {read_token(place.at("sep"))}}});
  } else if (type == "Sequence") {
    for (const JsonPlace& step : place.at("processors").items()) {
      read_into(step, result, has_template);
    }
  } else {
    place.fail(
        fmt::format("post-processor '{}' is not supported; known: ByteLevel, TemplateProcessing, "
                    "RobertaProcessing, BertProcessing, Sequence",
                    shortened(type)));
  }
}

}  // namespace

PostProcessing read_post_processor(const JsonPlace& place) {
  PostProcessing result;
  bool has_template = false;
  if (!place.is_null()) read_into(place, result, has_template);
  return result;
}

}  // namespace tessera
