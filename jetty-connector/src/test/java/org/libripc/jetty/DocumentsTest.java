// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringWriter;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The Java code that README.md and docs tell users to write. */
class DocumentsTest {
  /** What a fragment of a program may use besides what it makes itself. */
  private static final String AROUND =
      """
      import static java.nio.channels.FileChannel.MapMode.*;
      import static java.nio.file.StandardOpenOption.*;
      import java.nio.ByteBuffer;
      import java.nio.channels.FileChannel;
      import java.nio.file.Path;
      import java.util.concurrent.CompletableFuture;
      import java.util.concurrent.TimeUnit;
      import org.eclipse.jetty.client.ContentResponse;
      import org.eclipse.jetty.client.HttpClient;
      import org.eclipse.jetty.client.Request;
      import org.eclipse.jetty.client.Result;
      import org.eclipse.jetty.http.content.HttpContent;
      import org.eclipse.jetty.io.ByteBufferPool;
      import org.eclipse.jetty.server.handler.ResourceHandler;
      import org.libripc.*;
      import org.libripc.jetty.*;
      class Part {
        Request request;
        RipcClient services;
        Ripc ripc;
        Service service;
        ServiceId to;
        Path path;
        void run() throws Exception {
      %s
        }
      }
      """;

  @TempDir Path classes;

  private static List<String> blocks(String document, String language) throws Exception {
    Pattern block =
        Pattern.compile("^```" + language + "\\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);
    String text = Files.readString(Path.of("..", document));
    return block.matcher(text).results().map(found -> found.group(1)).toList();
  }

  private static String first(String expression, String text) {
    Matcher matcher = Pattern.compile(expression, Pattern.DOTALL).matcher(text);
    assertTrue(matcher.find(), () -> expression + " in " + text);
    return matcher.group(1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"README.md", "docs/calls.md", "docs/java.md", "docs/jetty.md"})
  void javaInDocumentsCompiles(String document) throws Exception {
    List<String> programs = blocks(document, "java");
    assertFalse(programs.isEmpty());
    for (String program : programs) {
      boolean isWhole = program.startsWith("import ");
      String name = isWhole ? first("public class (\\w+)", program) : "Part";
      String text = isWhole ? program : AROUND.formatted(program);
      JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
      JavaFileObject file =
          new SimpleJavaFileObject(
              URI.create("string:///" + name + ".java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreErrors) {
              return text;
            }
          };
      String path =
          System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
      StringWriter said = new StringWriter();
      List<String> options = List.of("-proc:none", "-d", classes.toString(), "-cp", path);
      assertTrue(
          compiler.getTask(said, null, null, options, null, List.of(file)).call(),
          () -> said + text);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"docs/java.md, ../java/pom.xml", "docs/jetty.md, pom.xml"})
  void theDependencyIsTheModule(String pair) throws Exception {
    String[] names = pair.split(", ");
    List<String> dependencies = blocks(names[0], "xml");
    assertEquals(1, dependencies.size());
    String module = Files.readString(Path.of(names[1]));
    String own = first("</parent>(.*)", module);
    List<String> expected =
        List.of(
            first("<groupId>([^<]*)", module),
            first("<artifactId>([^<]*)", own),
            first("<version>([^<]*)", module));
    assertEquals(
        expected,
        Pattern.compile("<(?:groupId|artifactId|version)>([^<]*)")
            .matcher(dependencies.get(0))
            .results()
            .map((MatchResult found) -> found.group(1))
            .toList());
  }
}
