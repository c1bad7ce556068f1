// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.stream.Stream;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.tools.ToolProvider;
import org.eclipse.jetty.io.ArrayByteBufferPool;
import org.eclipse.jetty.jmx.MBeanContainer;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.util.component.LifeCycle;
import org.eclipse.jetty.util.resource.ResourceFactory;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.eclipse.jetty.util.thread.ScheduledExecutorScheduler;
import org.eclipse.jetty.xml.XmlConfiguration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.stream.StreamService;

/** What Jetty expects of its components. */
class EmbeddingTest {
  private static final Path SOURCES = Path.of("src/main"); // java, and module

  @TempDir Path directory;
  private Ripc ripc;
  private Server server = new Server(new QueuedThreadPool());

  @BeforeEach
  void open() {
    ripc = Ripc.builder().runtimeDirectory(directory.resolve("run")).transports("shm").open();
  }

  @AfterEach
  void close() throws Exception {
    server.stop();
    ripc.close();
  }

  @Test
  void threadsTimersAndBuffersMayBeTheConnectorsOwn() throws Exception {
    QueuedThreadPool threads = new QueuedThreadPool(20);
    ScheduledExecutorScheduler timer = new ScheduledExecutorScheduler("own", true);
    ArrayByteBufferPool buffers = new ArrayByteBufferPool();
    RipcConnector connector = new RipcConnector(server, threads, timer, buffers, ripc);
    server.addConnector(connector);
    server.start();
    assertTrue(threads.isRunning() && timer.isRunning(), "they are started with it");
    assertSame(threads, connector.getBean(QueuedThreadPool.class));
    assertSame(timer, connector.getScheduler());
    assertSame(buffers, connector.getByteBufferPool());
    server.stop();
    assertTrue(threads.isStopped() && timer.isStopped());
  }

  @Test
  void threadsThatWaitAreOfTheBudget() throws Exception {
    server = new Server(new QueuedThreadPool(StreamService.RECEIVING_THREADS, 1));
    server.addConnector(new RipcConnector(server, ripc, "of the budget"));
    IllegalStateException few = assertThrows(IllegalStateException.class, server::start);
    assertTrue(few.getMessage().contains("Insufficient"), few.getMessage());
  }

  @Test
  void aStartMayFailAndBeTriedAgain() throws Exception {
    QueuedThreadPool threads = new QueuedThreadPool();
    server = new Server(threads);
    RipcConnector connector = new RipcConnector(server, ripc, "taken");
    server.addConnector(connector);
    RipcClient client = new RipcClient(ripc, threads, null);
    client.setServiceName("taken");
    threads.start();
    int leased = threads.getThreadPoolBudget().getLeasedThreads();
    try (Service other = ripc.service().name("taken").register()) {
      assertEquals(ServiceId.ofName("taken"), other.id());
      for (LifeCycle each : List.of(connector, client)) {
        assertThrows(RipcException.class, each::start);
        assertThrows(RipcException.class, each::start);
      }
      assertEquals(leased, threads.getThreadPoolBudget().getLeasedThreads());
    }
    client.start();
    assertEquals(ServiceId.ofName("taken"), client.getServiceId());
    client.stop();
    server.start();
    assertEquals(ServiceId.ofName("taken"), connector.getServiceId());
  }

  @Test
  void attributesAreManaged() throws Exception {
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    MBeanContainer container = new MBeanContainer(beans);
    container.setDomain("org.libripc.jetty.test");
    server.addBean(container);
    RipcConnector connector = new RipcConnector(server, ripc, "managed");
    server.addConnector(connector);
    RipcClient client = new RipcClient(ripc);
    server.addBean(client);
    server.start();
    ObjectName ofConnector = container.findMBean(connector);
    assertEquals("managed", beans.getAttribute(ofConnector, "serviceName"));
    assertEquals(0, beans.getAttribute(ofConnector, "connections"));
    assertEquals(0, beans.getAttribute(container.findMBean(client), "connections"));
    container.destroy();
  }

  @Test
  void theDumpTellsOfConnectionsAndThreads() throws Exception {
    RipcConnector connector = new RipcConnector(server, ripc, "dumped");
    server.addConnector(connector);
    server.start();
    String dump = server.dump();
    assertTrue(dump.contains("service=dumped " + connector.getServiceId()), dump);
    assertTrue(dump.contains("ReceivingThreads@"), dump);
    assertTrue(dump.contains("connections size=0"), dump);
  }

  @Test
  void theModuleOfJettyHomeMakesAConnector() throws Exception {
    Path config = Path.of("src/main/config");
    String module = Files.readString(config.resolve("modules/ripc.mod"));
    assertTrue(module.contains("[xml]\netc/jetty-ripc.xml\n"), module);
    XmlConfiguration xml =
        new XmlConfiguration(
            ResourceFactory.root().newResource(config.resolve("etc/jetty-ripc.xml")));
    xml.getIdMap().putAll(Map.of("Server", server, "httpConfig", new HttpConfiguration()));
    xml.getProperties()
        .putAll(Map.of("jetty.ripc.serviceName", "of xml", "jetty.ripc.maxConnections", "7"));
    xml.configure();
    RipcConnector connector = (RipcConnector) server.getConnectors()[0];
    assertEquals("of xml", connector.getServiceName());
    assertEquals(7, connector.getMaxConnections());
    assertEquals(List.of("http/1.1", "h2c"), connector.getProtocols());
    connector.getTransport().close();
  }

  @Test
  void theModuleNamesAllThatIsUsed() throws Exception {
    Path classes = Files.createDirectory(directory.resolve("classes"));
    List<String> arguments =
        new ArrayList<>(List.of("-d", classes.toString(), "--module-path", modulePath()));
    try (Stream<Path> sources = Files.walk(SOURCES)) {
      sources.map(Path::toString).filter(each -> each.endsWith(".java")).forEach(arguments::add);
    }
    int status =
        ToolProvider.getSystemJavaCompiler()
            .run(null, null, null, arguments.toArray(new String[0]));
    assertEquals(0, status, "the errors are in the output of this test");
    Set<?> exported =
        ModuleFinder.of(classes).find("org.libripc.jetty").orElseThrow().descriptor().exports();
    assertEquals("[org.libripc.jetty]", exported.toString());
  }

  // The jars of the class path, and jars of libripc's modules, which may not be packaged yet.
  private String modulePath() throws IOException {
    List<String> path = new ArrayList<>();
    for (String each :
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"))
            .split(":")) {
      Path entry = Path.of(each);
      if (each.endsWith(".jar")) {
        path.add(each);
      } else if (Files.exists(entry.resolve("org/libripc/Ripc.class"))) {
        path.add(jarOf(entry, "org.libripc").toString());
      } else if (Files.exists(entry.resolve("org/libripc/stream/ByteStream.class"))) {
        path.add(jarOf(entry, "org.libripc.stream").toString());
      }
    }
    return String.join(":", path);
  }

  private Path jarOf(Path classes, String module) throws IOException {
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    manifest.getMainAttributes().putValue("Automatic-Module-Name", module);
    Path jar = directory.resolve(module + ".jar");
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar), manifest);
        Stream<Path> files = Files.walk(classes)) {
      files
          .filter(each -> each.toString().endsWith(".class"))
          .forEach(each -> add(out, classes, each));
    }
    return jar;
  }

  private static void add(JarOutputStream out, Path classes, Path file) {
    try {
      out.putNextEntry(new JarEntry(classes.relativize(file).toString()));
      Files.copy(file, out);
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }
}
