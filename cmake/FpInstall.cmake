# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts besides the programs: units, accounts, commented configuration,
# man pages. Programs are installed by the directories that build them.
include(GNUInstallDirs)

set(FP_SBINDIR ${CMAKE_INSTALL_FULL_SBINDIR})
set(FP_BINDIR ${CMAKE_INSTALL_FULL_BINDIR})
foreach(unit fleetprof-agent.service fleetprof-collector.service)
  configure_file(${CMAKE_SOURCE_DIR}/systemd/${unit}.in ${CMAKE_BINARY_DIR}/systemd/${unit} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/systemd/${unit} DESTINATION lib/systemd/system)
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/systemd/fleetprof.sysusers.conf
  DESTINATION lib/sysusers.d RENAME fleetprof.conf)
install(FILES ${CMAKE_SOURCE_DIR}/systemd/paranoid-kernel.conf
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fleetprof)

# The programs read /etc/fleetprof whatever the prefix; a file that is there stays.
foreach(name agent collector)
  install(CODE "
    if(NOT EXISTS \"\$ENV{DESTDIR}/etc/fleetprof/${name}.conf\")
      file(INSTALL \"${CMAKE_SOURCE_DIR}/systemd/${name}.conf\"
        DESTINATION /etc/fleetprof) # which puts DESTDIR before it
    endif()")
endforeach()

file(GLOB FP_MAN_PAGES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.[1-9])
foreach(page ${FP_MAN_PAGES})
  cmake_path(GET page EXTENSION LAST_ONLY section)
  string(SUBSTRING ${section} 1 1 section)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
