#include "http/router.h"

#include <gtest/gtest.h>

namespace tessera::http {
namespace {

Request request_for(const std::string& method, const std::string& target) {
  const auto parsed = parse_target(target);
  Request request;
  request.method = method;
  request.segments = parsed->segments;
  request.query = parsed->query;
  return request;
}

Router example() {
  Router router;
  router.get("/", [](const Request&) { return Response::json("root"); });
  router.get("/runs/{id}/plan",
             [](const Request& request) { return Response::json(request.captured.at("id")); });
  router.add("POST", "/runs/{id}/plan", [](const Request&) { return Response::json("posted"); });
  router.get("/refuses", [](const Request&) -> Response { throw Refusal(409, "busy", "not now"); });
  router.get("/mistake", [](const Request&) -> Response { throw ConfigError("points is 0"); });
  router.get("/bug", [](const Request&) -> Response { throw std::runtime_error("oops"); });
  return router;
}

TEST(RouterTest, FindsTheHandler) {
  const Router router = example();
  EXPECT_EQ(router.route(request_for("GET", "/")).body, "root");
  EXPECT_EQ(router.route(request_for("GET", "/runs/a%20b/plan")).body, "a b");
  EXPECT_EQ(router.route(request_for("HEAD", "/runs/x/plan")).body, "x");
  EXPECT_EQ(router.route(request_for("POST", "/runs/x/plan")).body, "posted");
}

TEST(RouterTest, RefusesWhatNobodyAnswers) {
  const Router router = example();
  EXPECT_EQ(router.route(request_for("GET", "/runs")).status, 404);
  EXPECT_EQ(router.route(request_for("GET", "/runs/x/plan/y")).status, 404);
  const Response refused = router.route(request_for("DELETE", "/runs/x/plan"));
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.back(),
            (std::pair<std::string, std::string>("Allow", "GET, HEAD, POST")));
  EXPECT_NE(refused.body.find("method_not_allowed"), std::string::npos);
}

TEST(RouterTest, AFailureOfAHandlerIsAResponse) {
  const Router router = example();
  const Response refused = router.route(request_for("GET", "/refuses"));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body, "{\"error\":{\"code\":\"busy\",\"message\":\"not now\"}}\n");
  EXPECT_EQ(router.route(request_for("GET", "/mistake")).status, 400);
  EXPECT_EQ(router.route(request_for("GET", "/bug")).status, 500);
}

}  // namespace
}  // namespace tessera::http
