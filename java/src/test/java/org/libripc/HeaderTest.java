// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.libripc.internal.Layout;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.Latency;
import org.libripc.rpc.MethodStatistics;
import org.libripc.rpc.RpcBuilder;
import org.libripc.rpc.RpcStatistics;

/** Everything in the C headers is also in Java, with the same name and number. */
class HeaderTest {
  /** The functions that Java offers in another way, with that way. */
  private static final Map<String, String> NOT_CALLED =
      Map.ofEntries(
          Map.entry("ripc_status_name", "Status.name()"),
          Map.entry("ripc_cluster_key_create", "ripc key new"),
          Map.entry("ripc_identity_create", "ripc key new --identity"),
          Map.entry("ripc_identity_read", "ripc key show"),
          Map.entry("ripc_trust_read", "ripc trust list"),
          Map.entry("ripc_trust_change", "ripc trust remove"),
          Map.entry("ripc_trust_add", "ripc trust add"),
          Map.entry("ripc_peer_init", "in the record"),
          Map.entry("ripc_message_peer", "in the record"),
          Map.entry("ripc_request_peer", "in the record"),
          Map.entry("ripc_service_get_name", "Service.name()"),
          Map.entry("ripc_service_get_context", "Service.ripc()"),
          Map.entry("ripc_send_options_init", "Outgoing fills all of them"),
          Map.entry("ripc_group_outcome_init", "Outgoing sets its size"),
          Map.entry("ripc_service_info_init", "Layout has its size"),
          Map.entry("ripc_pool_statistics_init", "Layout has its size"),
          Map.entry("ripc_security_statistics_init", "Layout has its size"),
          Map.entry("ripc_service_statistics_init", "Layout has its size"),
          Map.entry("ripc_buffer_find", "BufferPool and Registrations know what is there"),
          Map.entry("ripc_ticket_wait", "Ticket is a CompletableFuture"),
          Map.entry("ripc_wait_service", "Ripc.waitService() is a watch"),
          Map.entry("ripc_wait_service_name", "Ripc.waitService() is a watch"),
          Map.entry("ripc_service_register_many", "threads that register at the same time"),
          Map.entry("ripc_receive", "ripc_receive_records()"),
          Map.entry("ripc_receive_many", "ripc_receive_records()"),
          Map.entry("ripc_message_get_source", "in the record"),
          Map.entry("ripc_message_get_tag", "in the record"),
          Map.entry("ripc_message_get_item_count", "in the record"),
          Map.entry("ripc_message_get_item", "in the record"),
          Map.entry("ripc_message_get_in_reply_to", "in the record"),
          Map.entry("ripc_message_get_return_count", "in the record"),
          Map.entry("ripc_message_get_return_size", "in the record"),
          Map.entry("ripc_rpc_options_init", "Endpoint fills all of them"),
          Map.entry("ripc_call_options_init", "Endpoint fills all of them"),
          Map.entry("ripc_call_result_init", "in the record"),
          Map.entry("ripc_rpc_statistics_init", "Layout has its size"),
          Map.entry("ripc_rpc_run", "ripc_rpc_run_records()"),
          Map.entry("ripc_rpc_call_wait", "Rpc.callWait()"),
          Map.entry("ripc_request_get_source", "in the record"),
          Map.entry("ripc_request_get_method", "in the record"),
          Map.entry("ripc_request_get_item_count", "in the record"),
          Map.entry("ripc_request_get_item", "in the record"),
          Map.entry("ripc_request_get_return_count", "in the record"),
          Map.entry("ripc_request_get_return_size", "in the record"));

  /**
   * A lease that is given away ends while buffers over it can still be reached. They would show the
   * memory of another lease.
   */
  private static final List<String> NOT_IN_JAVA = List.of("RIPC_ITEM_GIVEN");

  private final String header = read();

  private static String read() {
    try (Stream<Path> files = Files.list(Path.of("../libripc/include/ripc"))) {
      StringBuilder text = new StringBuilder();
      for (Path file : files.filter(file -> file.toString().endsWith(".h")).sorted().toList())
        text.append(Files.readString(file));
      return text.toString().replaceAll("(?s)/\\*.*?\\*/", "");
    } catch (IOException problem) {
      throw new java.io.UncheckedIOException(problem);
    }
  }

  private Stream<Matcher> matches(String pattern) {
    Matcher matcher = Pattern.compile(pattern, Pattern.DOTALL).matcher(header);
    return matcher.results().map(found -> pattern(pattern, found.group()));
  }

  private static Matcher pattern(String pattern, String text) {
    Matcher matcher = Pattern.compile(pattern, Pattern.DOTALL).matcher(text);
    assertTrue(matcher.find());
    return matcher;
  }

  private static Class<?> internal(String name) throws ClassNotFoundException {
    return Class.forName("org.libripc.internal." + name, false, HeaderTest.class.getClassLoader());
  }

  @Test
  void everyFunctionIsCalledOrNotNeeded() throws Exception {
    Set<String> functions =
        matches("RIPC_API[^;]*?\\b(ripc_\\w+)\\(")
            .map(found -> found.group(1))
            .collect(Collectors.toCollection(TreeSet::new));
    assertTrue(functions.size() > 50, functions::toString);
    Set<String> known = new TreeSet<>(NOT_CALLED.keySet());
    known.addAll(nativeMethods("NativeCalls"));
    assertEquals(functions, known);
  }

  private static Set<String> nativeMethods(String type) throws ClassNotFoundException {
    Set<String> names = new TreeSet<>();
    for (Method method : internal(type).getDeclaredMethods())
      if (Modifier.isNative(method.getModifiers())) names.add(method.getName());
    return names;
  }

  @Test
  void jniHasEveryNativeMethod() throws Exception {
    Set<String> listed =
        Pattern.compile("\\bC\\d\\((\\w+),")
            .matcher(Files.readString(Path.of("src/main/native/calls.h")))
            .results()
            .map(found -> found.group(1))
            .collect(Collectors.toCollection(TreeSet::new));
    Set<String> methods = nativeMethods("NativeCalls");
    methods.addAll(nativeMethods("LibC"));
    assertEquals(methods, listed);
  }

  @ParameterizedTest
  @CsvSource({
    "ripc_status, RIPC_, org.libripc.Status",
    "ripc_peer_policy, RIPC_PEERS_, org.libripc.RipcBuilder$Peers",
    "ripc_network, RIPC_NETWORK_, org.libripc.RipcBuilder$Network",
    "ripc_encrypt, RIPC_ENCRYPT_, org.libripc.RipcBuilder$Encrypt",
    "ripc_item_kind, RIPC_ITEM_, org.libripc.ItemKind",
    "ripc_view_kind, RIPC_VIEW_, org.libripc.ViewKind",
    "ripc_call_outcome, RIPC_CALL_, org.libripc.rpc.CallOutcome"
  })
  void everyEnumHasTheSameValues(String type, String prefix, String name) throws Exception {
    List<String> names = new ArrayList<>();
    Matcher value = Pattern.compile(prefix + "(\\w+) = (\\d+)").matcher(enumOf(type));
    while (value.find()) {
      assertEquals(names.size(), Integer.parseInt(value.group(2)));
      names.add(value.group(1));
    }
    names.removeIf(each -> NOT_IN_JAVA.contains(prefix + each));
    assertEquals(
        names,
        Arrays.stream(Class.forName(name).getEnumConstants()).map(Object::toString).toList());
  }

  private String enumOf(String type) {
    return pattern("typedef enum " + type + " \\{([^}]*)\\}", header).group(1);
  }

  @Test
  void thereAreNoFlagsButLend() {
    assertEquals("RIPC_RECEIVE_LEND = 1", enumOf("ripc_receive_flags").strip());
  }

  @Test
  void theLimitsAreTheSame() {
    Map<String, Long> limits =
        Map.of(
            "RIPC_MAX_ITEMS", (long) Layout.MAX_ITEMS,
            "RIPC_MAX_RETURNS", (long) Layout.MAX_RETURNS,
            "RIPC_MAX_GROUPS", (long) Layout.MAX_GROUPS);
    Map<String, Long> found =
        matches("#define (RIPC_MAX_\\w+) (\\d+)")
            .collect(Collectors.toMap(each -> each.group(1), each -> Long.valueOf(each.group(2))));
    assertEquals(limits, found);
  }

  // ---- Structures ----

  /** The fields of a structure with their offsets, and its size under "". */
  private Map<String, Integer> structure(String name) {
    Map<String, Integer> fields = new LinkedHashMap<>();
    int end = 0;
    String body = pattern("typedef struct " + name + " \\{([^}]*)\\}", header).group(1);
    for (String declaration : body.split(";")) {
      if (declaration.isBlank()) continue;
      Matcher parts = pattern("^\\s*(?:const )?(\\w+)\\s+(.*)$", declaration);
      for (String declarator : parts.group(2).split(",")) {
        Matcher field = pattern("(\\*?)(\\w+)(?:\\[(\\w+)\\])?\\s*$", declarator);
        int size = field.group(1).isEmpty() ? sizeOf(parts.group(1)) : 8;
        int alignment = Math.min(size, 8);
        end = (end + alignment - 1) / alignment * alignment;
        fields.put(field.group(2), end);
        end += size * countOf(field.group(3));
      }
    }
    fields.put("", (end + 7) / 8 * 8);
    return fields;
  }

  /** The number of elements of an array. */
  private int countOf(String number) {
    if (number == null) return 1;
    if (Character.isDigit(number.charAt(0))) return Integer.parseInt(number);
    return Integer.parseInt(pattern("#define " + number + " (\\d+)", header).group(1));
  }

  private static int sizeOf(String type) {
    return switch (type) {
      case "char" -> 1;
      case "uint32_t" -> 4;
      case "void", "size_t", "uint64_t", "ripc_service_id", "ripc_ticket_callback" -> 8;
      case "ripc_latency" -> Layout.Latency.BYTES;
      default -> throw new AssertionError("what is a " + type + "?");
    };
  }

  @ParameterizedTest
  @CsvSource({
    "ripc_context_options, ContextOptions",
    "ripc_service_options, ServiceOptions",
    "ripc_item, Item",
    "ripc_outgoing, OutgoingMessage",
    "ripc_return_buffer, ReturnBuffer",
    "ripc_group_outcome, Outcome",
    "ripc_send_options, SendOptions",
    "ripc_item_view, View",
    "ripc_record, Record",
    "ripc_notification, NotificationName",
    "ripc_service_info, Info",
    "ripc_rail_info, Rail",
    "ripc_finding, Finding",
    "ripc_rpc_options, RpcOptions",
    "ripc_call_options, CallOptions",
    "ripc_rpc_record, CallRecord",
    "ripc_latency, Latency",
    "ripc_rpc_method_statistics, MethodStatistics"
  })
  void everyFieldIsWhereItIs(String name, String layout) throws Exception {
    Map<String, Integer> fields = structure(name);
    Class<?> known = internal("Layout$" + layout);
    fields.forEach(
        (field, offset) -> {
          if (field.equals("size") && offset == 0) return; // of the structure itself
          String constant = field.isEmpty() ? "BYTES" : field.toUpperCase(Locale.ROOT);
          try {
            assertEquals(offset, known.getField(constant).get(null), name + "." + field);
          } catch (ReflectiveOperationException missing) {
            throw new AssertionError(layout + " lacks " + constant, missing);
          }
        });
  }

  @Test
  void everyStructureIsKnown() {
    Set<String> known =
        Set.of(
            "ripc_context_options",
            "ripc_service_options",
            "ripc_item",
            "ripc_outgoing",
            "ripc_return_buffer",
            "ripc_group_outcome",
            "ripc_send_options",
            "ripc_item_view",
            "ripc_record",
            "ripc_notification",
            "ripc_service_info",
            "ripc_rail_info",
            "ripc_finding",
            "ripc_pool_statistics",
            "ripc_security_statistics",
            "ripc_service_statistics",
            "ripc_rpc_options",
            "ripc_call_options",
            "ripc_call_result", // comes as a record
            "ripc_peer", // comes as a record, too
            "ripc_trust_member", // for the command line only
            "ripc_rpc_record",
            "ripc_rpc_statistics",
            "ripc_latency",
            "ripc_rpc_method_statistics");
    assertEquals(
        known,
        matches("typedef struct (\\w+) \\{")
            .map(found -> found.group(1))
            .collect(Collectors.toSet()));
  }

  // ---- What applications see of them ----

  private static String camel(String field) {
    Matcher part = Pattern.compile("_(\\w)").matcher(field);
    return part.replaceAll(found -> found.group(1).toUpperCase(Locale.ROOT));
  }

  private List<String> fields(String structure) {
    return structure(structure).keySet().stream()
        .filter(field -> !field.isEmpty() && !field.equals("size"))
        .map(HeaderTest::camel)
        .toList();
  }

  private static List<String> components(Class<?> record) {
    return Arrays.stream(record.getRecordComponents()).map(RecordComponent::getName).toList();
  }

  @Test
  void everyCounterIsInItsRecord() {
    assertEquals(fields("ripc_service_statistics"), components(ServiceStatistics.class));
    assertEquals(Layout.SERVICE_STATISTICS, structure("ripc_service_statistics").get(""));
    List<String> pool = new ArrayList<>(fields("ripc_pool_statistics"));
    pool.add("inUse"); // counted in Java
    assertEquals(pool, components(PoolStatistics.class));
    assertEquals(Layout.POOL_STATISTICS, structure("ripc_pool_statistics").get(""));
    assertEquals(fields("ripc_security_statistics"), components(SecurityStatistics.class));
    assertEquals(Layout.SECURITY_STATISTICS, structure("ripc_security_statistics").get(""));
    assertEquals(fields("ripc_rpc_statistics"), components(RpcStatistics.class));
    assertEquals(Layout.RPC_STATISTICS, structure("ripc_rpc_statistics").get(""));
    assertEquals(fields("ripc_rpc_method_statistics"), components(MethodStatistics.class));
    assertEquals(fields("ripc_latency"), components(Latency.class));
  }

  @Test
  void everyResultIsInItsRecord() {
    List<String> info = new ArrayList<>(fields("ripc_service_info"));
    info.remove("groupCount");
    assertEquals(info, components(ServiceInfo.class));
    assertEquals(fields("ripc_finding"), components(Finding.class));
    assertEquals(fields("ripc_rail_info"), components(RailInfo.class));
    List<String> outcome = new ArrayList<>(fields("ripc_group_outcome"));
    outcome.remove("missedCapacity");
    assertEquals(outcome, components(GroupOutcome.class));
    assertEquals(fields("ripc_notification"), components(Notification.class));
  }

  /** Checks that the builder has each field, under its own name or the one in {@code others}. */
  private void assertSettable(String structure, Class<?> builder, Map<String, String> others) {
    Set<String> methods = new TreeSet<>();
    for (Method method : builder.getMethods()) methods.add(method.getName());
    for (String field : fields(structure)) {
      String name = others.getOrDefault(field, field);
      assertTrue(methods.contains(name), () -> builder.getSimpleName() + " lacks " + field);
    }
  }

  @Test
  void everyOptionCanBeSet() {
    assertSettable("ripc_context_options", RipcBuilder.class, Map.of("peerPolicy", "peers"));
    assertSettable("ripc_service_options", ServiceBuilder.class, Map.of());
    assertSettable(
        "ripc_send_options",
        Outgoing.class,
        Map.of(
            "returns",
            "attach",
            "returnCount",
            "attach",
            // A Ticket replaces both.
            "callback",
            "timeout",
            "user",
            "timeout",
            "flags",
            "unordered"));
    assertSettable(
        "ripc_rpc_options",
        RpcBuilder.class,
        // Handlers run in any Executor, and Java always reads records.
        Map.of("workers", "open", "workerQueue", "open", "recorded", "open"));
    assertSettable(
        "ripc_call_options",
        CallOptions.class,
        // The arguments are an Outgoing, and a loan ends like that of any other one.
        Map.of(
            "returns",
            "timeout",
            "returnCount",
            "timeout",
            "loanEnded",
            "timeout",
            "loanUser",
            "timeout"));
  }
}
