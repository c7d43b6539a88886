// Which build this is: what the library's banner, `ccld --version` and `ccld frames` say.
//
// Contract
//   Plain words, never a path: what `git describe` says of the source (a commit of 12 digits or a tag and a commit;
//   "-modified" where tracked files differ from it), "src-" and 12 digits of the sources' hash where there is no
//   repository, or what CCLD_BUILD_ID said when CMake ran. As of the last time CMake ran. At most build_id_bytes_max
//   characters.
//
// Threads: constants; any thread.
#pragma once

namespace ccld {

constexpr unsigned build_id_bytes_max = 63;  // with the NUL it fits abi::BuildIdPart

const char* build_id();
const char* release_version();  // "0.1.0"

}  // namespace ccld
