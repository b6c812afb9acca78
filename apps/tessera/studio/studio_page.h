// The studio's page as it is served: one file, compressed in the binary.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace tessera {

// web/studio.html.gz, as the binary holds it; empty: it was not there when the binary was built.
std::string_view embedded_studio_page();

class StudioPage {
 public:
  // `compressed`: by gzip; empty: a page that says how to build one. Throws Error where it is
  // damaged.
  explicit StudioPage(std::string_view compressed);

  [[nodiscard]] http::Response respond(const http::Request& request) const;
  [[nodiscard]] const std::string& html() const { return html_; }
  [[nodiscard]] bool is_built() const { return built_; }

  // Fields for every response: what a browser may do with a page of ours.
  [[nodiscard]] http::Fields security_fields() const;

 private:
  bool built_;
  std::string html_, compressed_;
  std::string tag_;     // ETag
  std::string policy_;  // Content-Security-Policy
};

// Whether a file is an exported page of ours: it may be replaced by a newer one.
bool is_studio_page(std::string_view html);

}  // namespace tessera
