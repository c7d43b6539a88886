// Whether a request comes from where it may come from, and whether an answer is known already.
// A web page that somebody looks at on this machine can make its browser send requests here; so can one whose name its
// owner lets resolve to this machine. Both tell by `Origin` and `Host`.
// Pure. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ccld::decision::server {

// "127.0.0.1", as the system writes the address of a peer.
bool is_this_host(absl::string_view address);

// `host`: the header of that name. An address, localhost, or one of `names`; with or without a port. A name that we do
// not know may be one that a stranger lets resolve to our address.
bool is_our_name(absl::string_view host, const std::vector<std::string>& names);

// Enough for a question: `host` is ours as above, or can be nobody's whose page comes from outside: a name without a
// dot, or one in a domain that is never public (local, internal, localhost, home.arpa). Also none at all, which no
// browser sends.
bool is_no_strangers_name(absl::string_view host, const std::vector<std::string>& names);

// `origin`: the header of that name, empty if there is none, as of every client but browsers. A page that we served
// ourselves has our own address there. `tls`: we serve it encrypted.
bool is_same_origin(absl::string_view origin, absl::string_view host, bool tls = false);

// `if_none_match`: the header of that name: tags with commas between, or *.
bool matches_etag(absl::string_view if_none_match, absl::string_view etag);

}  // namespace ccld::decision::server
