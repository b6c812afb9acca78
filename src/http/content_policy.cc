#include "http/content_policy.h"

#include <vector>

#include "base/sha256.h"
#include "base/text/base64.h"

namespace tessera::http {
namespace {

// The texts between <script …> and </script>, of scripts that are not loaded from elsewhere.
std::vector<std::string_view> inline_scripts(std::string_view html) {
  std::vector<std::string_view> scripts;
  size_t at = html.find("<script");
  while (at != std::string_view::npos) {
    const size_t open = html.find('>', at);
    if (open == std::string_view::npos) break;
    const size_t close = html.find("</script", open);
    if (close == std::string_view::npos) break;
    const bool loaded = html.substr(at, open - at).find(" src=") != std::string_view::npos;
    if (!loaded) scripts.push_back(html.substr(open + 1, close - open - 1));
    at = html.find("<script", close);
  }
  return scripts;
}

}  // namespace

std::string content_policy(std::string_view html) {
  std::string policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";
  for (const std::string_view script : inline_scripts(html)) {
    policy += " 'sha256-" + base64(sha256(script)) + "'";
  }
  return policy +
         "; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
         "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
}

}  // namespace tessera::http
