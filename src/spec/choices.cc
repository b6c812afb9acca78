#include "spec/choices.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

PipelineKind pipeline_kind(std::string_view name) {
  if (const auto kind = choice_named<PipelineKind>(name)) return *kind;
  throw ConfigError(fmt::format("unknown schedule {} (the name of a file would end in .csv); {}",
                                in_quotes(name),
                                suggestion(name, kNamesOf<PipelineKind>, "schedules")));
}

PipelineChoice PipelineChoice::parse(std::string_view text) {
  PipelineChoice choice(PipelineKind::k1F1B);
  if (text.ends_with(".csv")) {
    choice.file_ = text;
  } else {
    choice.kind_ = pipeline_kind(text);
  }
  return choice;
}

}  // namespace tessera
