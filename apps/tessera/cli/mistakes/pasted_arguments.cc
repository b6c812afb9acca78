#include "cli/mistakes/pasted_arguments.h"

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text/pasted.h"
#include "base/text/printable.h"

namespace tessera {
namespace {

// "--model" for "—model", "–-model" and "−−model"; "-o" for "–o".
std::string plain_flag(const std::string& arg) {
  const std::string typed = typed_plainly(arg);
  const std::string name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  return (name.size() == 1 ? "-" : "--") + name;
}

// A quote at the beginning of a value: “gpt2”, or --model=“gpt2”.
bool quotes_a_value(const std::string& arg, const PastedCharacter& pasted) {
  return pasted.kind == PastedKind::kQuote && (pasted.at == 0 || arg[pasted.at - 1] == '=');
}

void refuse_pasted_argument(const std::string& arg) {
  const std::optional<PastedCharacter> pasted = find_pasted(arg);
  if (!pasted.has_value()) return;
  std::error_code error;
  if (std::filesystem::exists(arg, error)) return;
  const bool dash = pasted->kind == PastedKind::kDash && (pasted->at == 0 || arg.front() == '-');
  const bool begins = arg.find('=') == std::string::npos || pasted->at < arg.find('=');
  require_config(!(dash && begins),
                 "'{}' has {}, as pages and documents make of two hyphens: type {}", shortened(arg),
                 describe(*pasted), shortened(plain_flag(arg)));
  require_config(!quotes_a_value(arg, *pasted),
                 "'{}' has {}, which the shell does not take for one: type {}", shortened(arg),
                 describe(*pasted), shortened(typed_plainly(arg)));
  const bool unseen = pasted->kind == PastedKind::kSpace || pasted->kind == PastedKind::kNothing;
  require_config(!unseen, "'{}' has {} in it, from a page or a document: type {}", shortened(arg),
                 describe(*pasted), shortened(typed_plainly(arg)));
}

}  // namespace

void refuse_pasted(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const bool any_text = args[i].starts_with("--prompt=") || (i > 0 && args[i - 1] == "--prompt");
    if (!any_text) refuse_pasted_argument(args[i]);
  }
}

}  // namespace tessera
