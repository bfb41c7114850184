"""Ports: the one asked for, the usual one, or any."""

from __future__ import annotations

from fedpact.explorer.server import ADDRESS, USUAL_PORT, open_socket


def test_a_port_is_this_machines_alone():
    with open_socket(None) as made:
        assert made.getsockname()[0] == ADDRESS == "127.0.0.1"


def test_any_port_serves_where_the_usual_one_is_taken():
    with open_socket(None) as first, open_socket(None) as second:
        ports = {first.getsockname()[1], second.getsockname()[1]}
        assert len(ports) == 2 and all(port > 0 for port in ports)
        assert second.getsockname()[1] != USUAL_PORT
