#include "studio/studio_page.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "cli/gzip.h"
#include "http/content_policy.h"

namespace tessera {
namespace {

constexpr size_t kMostPageBytes = size_t{64} << 20;
// In the first bytes of every page of ours.
constexpr std::string_view kMark = "Tessera Studio";
constexpr size_t kMarkWithin = 4096;

constexpr std::string_view kNoPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tessera Studio</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>Tessera Studio</h1>
<p>This tessera was built without its page. To have it, in the source folder:</p>
<pre>cd web
npm ci
npm run build
cd ..
./demo</pre>
<p>The runs are served all the same: <a href="api/runs">api/runs</a>.</p>
</body>
</html>
)html";

}  // namespace

StudioPage::StudioPage(std::string_view compressed)
    : built_(!compressed.empty()),
      html_(built_ ? gunzip(compressed, kMostPageBytes) : std::string(kNoPage)),
      compressed_(built_ ? std::string(compressed) : gzip(html_)),
      tag_(hex(hash_name(html_))),
      policy_(http::content_policy(html_)) {}

http::Response StudioPage::respond(const http::Request& request) const {
  const bool packed = http::accepts_gzip(request);
  // Two representations are two tags.
  const std::string tag = fmt::format("\"{}{}\"", tag_, packed ? "-gzip" : "");
  http::Response response;
  const std::string* known = request.field("if-none-match");
  if (known != nullptr && known->find(tag) != std::string::npos) {
    response.status = 304;
  } else {
    response = http::Response::text(200, "text/html; charset=utf-8", packed ? compressed_ : html_);
    if (packed) response.fields.emplace_back("Content-Encoding", "gzip");
  }
  response.fields.emplace_back("ETag", tag);
  response.fields.emplace_back("Cache-Control", "no-cache");
  response.fields.emplace_back("Vary", "Accept-Encoding");
  return response;
}

http::Fields StudioPage::security_fields() const {
  return {{"Content-Security-Policy", policy_},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"}};
}

bool is_studio_page(std::string_view html) {
  return html.substr(0, kMarkWithin).find(kMark) != std::string_view::npos;
}

}  // namespace tessera
