# The processes around the pure library: ingest, reports, the serve loop, and the executable `ccld`.
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
ccld_find_zmq()
pkg_check_modules(CCLD_HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(CCLD_ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_path(CCLD_CPPZMQ_INCLUDE zmq.hpp REQUIRED)

add_library(ccld_server STATIC
  ingest/batch_decoder.cc
  ingest/decode_communicators.cc
  ingest/decode_health.cc
  ingest/decode_in_flight.cc
  ingest/decode_rounds.cc
  ingest/distinct_errors.cc
  ingest/ingest.cc
  ingest/rejection.cc
  ingest/sequence_tracker.cc
  ingest/telemetry_socket.cc
  recording/block.cc
  recording/incident_files.cc
  recording/incident_history.cc
  recording/last_words.cc
  recording/metadata.cc
  recording/reader.cc
  recording/recorder.cc
  recording/recording_file.cc
  report/prometheus.cc
  report/status_json.cc
  report/status_text.cc
  report/text_format.cc
  report/verdict_json.cc
  report/verdict_text.cc
  report/wall_clock.cc
  server/analysis.cc
  server/analysis_loop.cc
  server/config_file.cc
  server/host_port.cc
  server/http_api.cc
  server/layout_file.cc
  server/record.cc
  server/replay.cc
  server/serve.cc
  server/surroundings.cc
  server/tune.cc
  server/verdict_writer.cc)
target_compile_features(ccld_server PUBLIC cxx_std_20)
target_compile_definitions(ccld_server PUBLIC CCLD_VERSION="${PROJECT_VERSION}")
target_include_directories(ccld_server SYSTEM PUBLIC ${CCLD_CPPZMQ_INCLUDE})
target_link_libraries(ccld_server
  PUBLIC ccld_decision ccld_wire PkgConfig::CCLD_ZMQ nlohmann_json::nlohmann_json absl::synchronization absl::time absl::span
         absl::hash absl::str_format absl::cord absl::cleanup Threads::Threads
  PRIVATE ccld_options PkgConfig::CCLD_HTTPLIB PkgConfig::CCLD_ZSTD spdlog::spdlog CLI11::CLI11)

add_executable(ccld
  cli/command.cc
  cli/explain_command.cc
  cli/frames_command.cc
  cli/frames_json.cc
  cli/frames_report.cc
  cli/frames_text.cc
  cli/kernel_runs.cc
  cli/local_processes.cc
  cli/main.cc
  cli/record_command.cc
  cli/replay_command.cc
  cli/replay_report.cc
  cli/serve_command.cc
  cli/service_client.cc
  cli/settings_command.cc
  cli/status_command.cc
  cli/tune_command.cc
  cli/tune_local.cc)
target_link_libraries(ccld PRIVATE ccld_server ccld_options PkgConfig::CCLD_HTTPLIB CLI11::CLI11)
set_target_properties(ccld PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
