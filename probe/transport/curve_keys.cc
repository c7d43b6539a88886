#include "probe/transport/curve_keys.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/keys/curve_key.h"

namespace ccld::probe {
namespace {

// Nothing: `why` says it.
std::optional<std::string> content(const std::string& path, std::string* why) {
  // Without waiting for a writer, should it be a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    *why = std::strerror(errno);
    return std::nullopt;
  }
  struct stat status {};
  char bytes[keys::key_file_bytes_max];
  ssize_t size = -1;
  if (fstat(fd, &status) != 0)
    *why = std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    *why = "it is no file";
  else if (status.st_size > static_cast<off_t>(sizeof bytes))
    *why = "it is no file of a key";
  else if ((size = read(fd, bytes, sizeof bytes)) < 0)
    *why = std::strerror(errno);
  close(fd);
  if (size < 0) return std::nullopt;
  return std::string(bytes, static_cast<size_t>(size));
}

// `unwanted`: the other one of a pair, which looks the same.
std::optional<std::string> key_of_file(const char* setting, const std::string& path, keys::KeyKind unwanted,
                                       std::string* error) {
  std::string why;
  if (const auto text = content(path, &why)) {
    const keys::FileKey found = keys::key_in(*text);
    if (!found.key.empty() && found.kind != unwanted) return std::string(found.key);
    why = found.key.empty()                   ? "it does not hold one key"
          : unwanted == keys::KeyKind::secret ? "it holds a secret key, the public one of the service is needed"
                                              : "it holds a public key, the secret one of this process is needed";
  }
  *error = std::string(setting) + "=\"" + path + "\" cannot be used: " + why;
  return std::nullopt;
}

}  // namespace

std::optional<CurveKeys> read_curve_keys(const std::string& server_key, const std::string& key_file,
                                         std::string* error) {
  CurveKeys result;
  if (server_key.empty() && key_file.empty()) return result;
  if (server_key.empty() || key_file.empty()) {
    *error = server_key.empty() ? "NCCL_PROBE_KEY_FILE is set, and NCCL_PROBE_SERVER_KEY is not"
                                : "NCCL_PROBE_SERVER_KEY is set, and NCCL_PROBE_KEY_FILE is not";
    return std::nullopt;
  }
  if (server_key[0] == '/') {
    const auto key = key_of_file("NCCL_PROBE_SERVER_KEY", server_key, keys::KeyKind::secret, error);
    if (!key) return std::nullopt;
    result.server = *key;
  } else if (keys::is_key(server_key)) {
    result.server = server_key;
  } else {
    *error = "NCCL_PROBE_SERVER_KEY=\"" + server_key + "\" is neither a key of 40 characters nor an absolute path";
    return std::nullopt;
  }
  const auto secret = key_of_file("NCCL_PROBE_KEY_FILE", key_file, keys::KeyKind::open, error);
  if (!secret) return std::nullopt;
  result.secret = *secret;
  return result;
}

}  // namespace ccld::probe
