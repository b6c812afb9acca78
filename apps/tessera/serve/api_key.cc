#include "serve/api_key.h"

#include "base/error.h"
#include "base/text/text.h"
#include "cli/read_text.h"
#include "serve/api/request_access.h"

namespace tessera {
namespace {

constexpr std::string_view kVariable = "TESSERA_API_KEY";

}  // namespace

std::string api_key(const std::string& path, const Environment& environment) {
  std::string key;
  if (!path.empty()) {
    const std::string text = read_text(path);
    key = trim(std::string_view(text).substr(0, text.find('\n')));
    require_config(!key.empty(),
                   "--api-key-file '{}' has no key in its first line: write one with "
                   "`openssl rand -hex 16`",
                   path);
  } else if (const auto found = environment.find(kVariable); found != environment.end()) {
    key = found->second;
  }
  if (!key.empty()) serve::require_usable_key(key);
  return key;
}

}  // namespace tessera
