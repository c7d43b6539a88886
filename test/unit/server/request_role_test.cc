#include "decision/server/request_role.h"

#include <catch2/catch.hpp>

namespace ccld::decision::server {

using admission::Role;

TEST_CASE("The health and the page's files are for everybody, every document needs read") {
  for (const char* path : {"/healthz", "/", "/i/17", "/page/app.js", "/page/style.css"})
    CHECK_FALSE(role_needed("GET", path).has_value());
  for (const char* path : {"/metrics", "/v1/status", "/v1/jobs/a", "/v1/incidents/1", "/v1/tune/1", "/v1/silences",
                           "/page/incident/1", "/i/", "/i/1/x", "/healthz/", "/page/../v1/status", "/nothing"}) {
    INFO(path);
    CHECK(role_needed("GET", path) == Role::read);
    CHECK(role_needed("HEAD", path) == Role::read);
  }
}

TEST_CASE("What changes anything has a role of its own") {
  CHECK(role_needed("POST", "/v1/tune") == Role::tune);
  CHECK(role_needed("POST", "/v1/validate") == Role::tune);
  for (const char* path : {"/v1/incidents/1/ack", "/v1/silences", "/v1/silences/1/end"})
    CHECK(role_needed("POST", path) == Role::acknowledge);
  CHECK(role_needed("POST", "/healthz").has_value());
}

}  // namespace ccld::decision::server
